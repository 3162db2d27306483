//! Where the work stands, for front ends that show it beside the conversation.

use std::collections::VecDeque;

use linn_services::session::{Todo, TodoStatus};
use serde_json::{Value, json};

/// How many files are remembered.
const N_FILES: usize = 8;

/// How long a first prompt has to be to count as what is wanted, in characters.
const MIN_GOAL_CHARS: usize = 8;

/// Where the work stands.
#[derive(Debug, Default)]
pub(crate) struct Work {
    version: u64,
    goal: String,
    todos: Vec<Todo>,
    /// The latest first.
    recent_files: VecDeque<String>,
    last_activity: String,
}

impl Work {
    /// Takes a prompt for what is wanted, if nothing is known yet; whether it was.
    pub(crate) fn want(&mut self, prompt: &str) -> bool {
        let prompt = prompt.trim();
        let is_goal = prompt.chars().count() >= MIN_GOAL_CHARS && !prompt.starts_with('/');
        if !self.goal.is_empty() || !is_goal {
            return false;
        }
        self.goal = prompt.to_owned();
        self.version += 1;
        true
    }

    /// The list of things to do is another one.
    pub(crate) fn plan(&mut self, todos: &[Todo]) {
        self.todos = todos.to_vec();
        self.did("todo_write");
    }

    /// A tool changed a file.
    pub(crate) fn touch(&mut self, tool: &str, path: &str) {
        self.recent_files.retain(|it| it != path);
        self.recent_files.push_front(path.to_owned());
        self.recent_files.truncate(N_FILES);
        self.did(&format!("{tool} {path}"));
    }

    fn did(&mut self, what: &str) {
        self.last_activity = what.to_owned();
        self.version += 1;
    }

    /// Nothing is known any more.
    pub(crate) fn clear(&mut self) {
        *self = Self { version: self.version + 1, ..Self::default() };
    }

    pub(crate) fn as_value(&self) -> Value {
        let todos = |status| self.todos.iter().filter(move |it| it.status == status).map(|it| it.content.as_str());
        json!({
            "version": self.version,
            "goal": self.goal,
            "done": todos(TodoStatus::Completed).collect::<Vec<_>>(),
            "in_progress": todos(TodoStatus::InProgress).collect::<Vec<_>>(),
            "next": todos(TodoStatus::Pending).collect::<Vec<_>>(),
            "recent_files": self.recent_files,
            "last_activity": self.last_activity,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_prompt_of_some_length_is_the_goal() {
        let mut work = Work::default();
        assert!(!work.want("hi"));
        assert!(!work.want("/compact everything"));
        assert!(work.want("  mend the build "));
        assert!(!work.want("something else entirely"));
        assert_eq!(work.as_value()["goal"], "mend the build");
        work.clear();
        assert_eq!(
            work.as_value(),
            json!({
                "version": 2, "goal": "", "done": [], "in_progress": [], "next": [], "recent_files": [], "last_activity": "",
            })
        );
    }

    #[test]
    fn the_latest_files_come_first_and_only_some_are_kept() {
        let mut work = Work::default();
        for n in 0..10 {
            work.touch("edit", &format!("f{n}"));
        }
        work.touch("write_file", "f5");
        let value = work.as_value();
        assert_eq!(value["recent_files"], json!(["f5", "f9", "f8", "f7", "f6", "f4", "f3", "f2"]));
        assert_eq!(value["last_activity"], "write_file f5");
    }
}
