//! Memories, which a plugin keeps if one does.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use linn_bus::Svc;
use linn_services::memory_provider::{MemoryAnswer, MemoryProvider, MemoryProviderError, NewMemory};

use crate::bridge::Bridge;
use crate::wire::commands::{ForgetMemory, ListMemory, RefreshMemory, Run, SaveMemory};
use crate::wire::events::{MemoryList, MemorySaved};

/// How many words of a memory become its name.
const WORDS_OF_NAME: usize = 5;

impl Bridge {
    /// Who keeps memories, if somebody does.
    fn memories(&self) -> Option<Svc<dyn MemoryProvider>> {
        self.service::<dyn MemoryProvider>().filter(|it| it.active().is_ok_and(|it| it.is_some()))
    }

    /// Asks who keeps memories, beside the run; what fails is told with the command.
    fn ask_memories<F, T>(
        &self,
        memories: Svc<dyn MemoryProvider>,
        label: &'static str,
        what: impl FnOnce(Svc<dyn MemoryProvider>) -> F + Send + 'static,
        tell: impl FnOnce(&Self, Option<T>) + Send + 'static,
    ) where
        F: Future<Output = Result<T, MemoryProviderError>> + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_job("task", label, move |bridge, signal| async move {
            let done = match signal.run_until_cancelled(what(memories)).await {
                Some(Ok(done)) => Some(done),
                Some(Err(error)) => {
                    bridge.error(format!("{label} failed: {error}"));
                    None
                }
                None => {
                    bridge.error(format!("{label} was aborted"));
                    None
                }
            };
            tell(&bridge, done);
        });
    }
}

/// What a memory is called: its first words, and when it was kept.
fn name_of(text: &str, now_s: u64) -> String {
    let words: Vec<&str> = text.split_whitespace().take(WORDS_OF_NAME).collect();
    format!("{} [{now_s}]", words.join(" "))
}

impl Run for SaveMemory {
    async fn run(self, bridge: &Arc<Bridge>) {
        let Self { text, tags, scope } = self;
        if text.trim().is_empty() {
            return bridge.error("save_memory: 'text' must not be empty");
        }
        let Some(memories) = bridge.memories() else { return bridge.missing("save_memory", "memory") };
        let now = bridge.ctx.clock().now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let memory = NewMemory {
            name: name_of(&text, now),
            content: text,
            kind: tags.into_iter().flatten().next().unwrap_or_else(|| "note".to_owned()),
            description: String::new(),
            scope,
        };
        let save = |memories: Svc<dyn MemoryProvider>| async move { memories.save(memory).await };
        bridge.ask_memories(memories, "save_memory", save, |bridge, saved: Option<MemoryAnswer>| {
            if let Some(saved) = saved {
                bridge.say(&MemorySaved { id: Some(&saved.id), message: "memory saved" });
            }
        });
    }
}

impl Run for ListMemory {
    async fn run(self, bridge: &Arc<Bridge>) {
        let Some(memories) = bridge.memories() else {
            return bridge.say(&MemoryList { entries: &[], count: 0 });
        };
        let list = |memories: Svc<dyn MemoryProvider>| async move { memories.list().await };
        bridge.ask_memories(memories, "list_memory", list, |bridge, listed: Option<MemoryAnswer>| {
            let entries = listed.unwrap_or_default().entries;
            bridge.say(&MemoryList { entries: &entries, count: entries.len() });
        });
    }
}

impl Run for ForgetMemory {
    async fn run(self, bridge: &Arc<Bridge>) {
        let Self { id, scope } = self;
        let Some(memories) = bridge.memories() else { return bridge.missing("forget_memory", "memory") };
        let message = format!("forgot memory '{id}'");
        let forget = |memories: Svc<dyn MemoryProvider>| async move { memories.forget(&id, scope.as_deref()).await };
        bridge.ask_memories(memories, "forget_memory", forget, move |bridge, forgot: Option<MemoryAnswer>| {
            if forgot.is_some() {
                bridge.say(&MemorySaved { id: None, message: &message });
            }
        });
    }
}

impl Run for RefreshMemory {
    async fn run(self, bridge: &Arc<Bridge>) {
        let Some(memories) = bridge.memories() else { return bridge.info("memory refreshed: no memories found") };
        let refresh = |memories: Svc<dyn MemoryProvider>| async move {
            let before = memories.injection()?;
            memories.refresh().await?;
            Ok((before, memories.injection()?))
        };
        bridge.ask_memories(memories, "refresh_memory", refresh, |bridge, injected: Option<(String, String)>| {
            let Some((before, now)) = injected else { return };
            bridge.info(match now.as_str() {
                "" => "memory refreshed: no memories found",
                it if it == before => "memory unchanged; system prompt kept intact (preserving prefix cache)",
                _ => "memory refreshed: memories injected",
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wp_4_7_a_memory_is_called_after_its_first_words_and_its_time() {
        assert_eq!(name_of(" the owl  lives in\nthe barn ", 7), "the owl lives in the [7]");
        assert_eq!(name_of("owl", 7), "owl [7]");
    }
}
