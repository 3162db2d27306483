//! Takes commands one after the other, and ends the bridge when there will be none any more.
//!
//! Commands are read ahead while the front end does not read the answers to earlier ones: so much and no more, for who writes
//! and never reads is to wait for itself and not to fill the memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::bridge::Bridge;
use crate::input::InputLine;
use crate::run::Reason;
use crate::wire::MAX_COMMAND_BYTES;
use crate::wire::commands::{Command, Run};
use crate::wire::events::Error;

/// How long the front end may take to read the rest.
const PATIENCE: Duration = Duration::from_secs(2);

/// How much of commands is read ahead. The end of the input is seen if no more than this lies before it.
const AHEAD_BYTES: usize = 4 << 20;

/// Code of a line that is no command.
const INVALID: &str = "invalid_command";

/// Takes commands until the input ends, nobody reads the output any more, or somebody says so.
pub(crate) async fn serve(bridge: Arc<Bridge>) {
    let handle = bridge.config.handle();
    let mut input = bridge.config.streams.input.lock().await;
    let (mut ahead, mut n_bytes, mut is_open) = (VecDeque::new(), 0, true);
    while is_open || !ahead.is_empty() {
        tokio::select! {
            biased;
            () = handle.stop.cancelled() => break,
            () = bridge.sink.gone() => break,
            is_read = bridge.room_for_answers(is_open), if !ahead.is_empty() => {
                let Some(line) = ahead.pop_front().filter(|_| is_read) else { break };
                n_bytes -= size_bytes(&line);
                match line {
                    InputLine::Text(line) => bridge.take_line(&line).await,
                    InputLine::TooLong => {
                        bridge.refuse(INVALID, &format!("command exceeds {MAX_COMMAND_BYTES} byte limit"));
                    }
                }
            }
            line = input.next(), if is_open && n_bytes < AHEAD_BYTES => match line {
                Ok(Some(line)) => {
                    n_bytes += size_bytes(&line);
                    ahead.push_back(line);
                }
                Ok(None) => is_open = false,
                Err(error) => {
                    bridge.refuse("protocol_read_error", &format!("stdin read failed: {error}"));
                    is_open = false;
                }
            },
        }
    }
    drop(input);
    bridge.end().await;
    handle.ended.cancel();
}

fn size_bytes(line: &InputLine) -> usize {
    match line {
        InputLine::Text(line) => line.len(),
        InputLine::TooLong => 0,
    }
}

impl Bridge {
    /// Waits until enough is read of what was answered; false when that does not come although no command will. Cancel safe.
    async fn room_for_answers(&self, is_open: bool) -> bool {
        let room = self.sink.has_room_for_answers();
        if is_open {
            room.await;
            return true;
        }
        self.ctx.within(PATIENCE, room).await.is_ok()
    }

    async fn take_line(self: &Arc<Self>, line: &[u8]) {
        let text = match std::str::from_utf8(line) {
            Ok(text) if text.trim().is_empty() => return,
            Ok(text) => text,
            Err(error) => return self.refuse(INVALID, &format!("command is not valid UTF-8: {error}")),
        };
        match serde_json::from_str::<Command>(text) {
            Ok(command) => command.run(self).await,
            Err(error) => self.refuse(INVALID, &format!("bad command: {error}")),
        }
    }

    fn refuse(&self, code: &str, message: &str) {
        self.say(&Error { message, code: Some(code) });
    }

    /// Ends what runs, and has everything written.
    async fn end(self: &Arc<Self>) {
        if self.is_over.swap(true, Ordering::AcqRel) {
            return;
        }
        self.greet_waiting().await;
        self.end_jobs();
        self.cancel(Reason::Shutdown).await;
        if let Some(agent) = self.agent()
            && let Err(error) = self.needs.sessions.flush(agent.session()).await
        {
            self.ctx.logger().error(format_args!("{error}"));
        }
        self.close_journal().await;
        self.tell_lost();
        self.write_rest().await;
    }

    /// The plugin goes: the same, as far as it was not done.
    pub(crate) async fn leave(&self) {
        self.leave_run();
        self.close_journal().await;
        self.write_rest().await;
    }

    async fn write_rest(&self) {
        let writing = self.sink.write_all(&self.config.streams.output);
        match self.ctx.within(PATIENCE, writing).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.ctx.logger().debug(format_args!("nobody reads any more: {error}")),
            Err(elapsed) => self.ctx.logger().warn(format_args!("the front end does not read: {elapsed}")),
        }
    }
}
