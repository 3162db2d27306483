//! Takes commands one after the other, and ends the bridge when there will be none any more.

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

/// Code of a line that is no command.
const INVALID: &str = "invalid_command";

/// Takes commands until the input ends, nobody reads the output any more, or somebody says so.
pub(crate) async fn serve(bridge: Arc<Bridge>) {
    let handle = bridge.config.handle();
    let mut input = bridge.config.streams.input.lock().await;
    loop {
        let line = tokio::select! {
            biased;
            () = handle.stop.cancelled() => break,
            () = bridge.sink.gone() => break,
            line = input.next() => line,
        };
        match line {
            Ok(Some(InputLine::Text(line))) => bridge.take_line(&line).await,
            Ok(Some(InputLine::TooLong)) => {
                bridge.refuse(INVALID, &format!("command exceeds {MAX_COMMAND_BYTES} byte limit"));
            }
            Ok(None) => break,
            Err(error) => {
                bridge.refuse("protocol_read_error", &format!("stdin read failed: {error}"));
                break;
            }
        }
    }
    drop(input);
    bridge.end().await;
    handle.ended.cancel();
}

impl Bridge {
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
