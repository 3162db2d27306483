//! What a prompt of the front end brings along: files that it mentions as `@path`, and pictures that it names by their file.

use std::path::{Component, Path};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use linn_bus::{ListenerError, Next};
use linn_services::agent::PromptDecision;
use linn_services::events::AgentPromptSubmit;
use linn_services::fs::{Fs, FsError};
use linn_services::model::{ContentBlock, MessageSource};

use crate::bridge::Bridge;
use crate::sink::Origin;
use crate::wire::events::Info;

/// How large a file may be that is mentioned, in bytes.
const FILE_BYTES: u64 = 24 << 10;

/// How large all files of a prompt may be, in bytes.
const ALL_FILES_BYTES: usize = 64 << 10;

/// How many mentions of a prompt are looked for among the files: a prompt may be nothing but words with an `@`.
const MOST_MENTIONS: usize = 64;

/// How large a picture may be, in bytes.
const PICTURE_BYTES: u64 = 10 << 20;

/// What may stand behind a path and not belong to it.
const PUNCTUATION: &[char] = &['.', ',', ';', ':', '!', '?', ')', ']', '}', '\'', '"'];

impl Bridge {
    /// Puts the files that a prompt mentions behind their names, and reads its pictures.
    pub(crate) async fn complete_prompt(
        &self,
        submit: &AgentPromptSubmit,
        next: Next<'_, AgentPromptSubmit>,
    ) -> Result<PromptDecision, ListenerError> {
        let decision = next.run().await?;
        let is_own = submit.source == MessageSource::User && self.state().agent() == Some(&submit.agent);
        let PromptDecision::Allow { content, mut additional_context } = decision else { return Ok(decision) };
        if is_own && let Some(answers) = self.ask_again().await {
            match &mut additional_context {
                Some(context) => context.content.extend(answers.content),
                None => additional_context = Some(answers),
            }
        }
        let Some(fs) = self.service::<dyn Fs>().filter(|_| is_own) else {
            return Ok(PromptDecision::Allow { content, additional_context });
        };
        let given = content.as_deref().unwrap_or(&submit.content);
        let mut completed = Vec::with_capacity(given.len());
        let mut attached = Attached::default();
        for block in given {
            completed.push(match block {
                ContentBlock::Text { text } => ContentBlock::Text { text: attached.expand(&*fs, text).await },
                ContentBlock::Image { url } if is_path(url) => match picture(&*fs, url).await {
                    Ok(url) => ContentBlock::Image { url },
                    Err(why) => {
                        self.tell_run(&format!("the picture {url} was left out: {why}"));
                        continue;
                    }
                },
                other => other.clone(),
            });
        }
        if !attached.paths.is_empty() {
            let (n, paths) = (attached.paths.len(), attached.paths.join(", "));
            self.tell_run(&format!("attached {n} file(s) from @mentions: {paths}"));
        }
        let is_same = completed == given;
        let content = if is_same { content } else { Some(completed) };
        Ok(PromptDecision::Allow { content, additional_context })
    }

    fn tell_run(&self, message: &str) {
        let state = self.state();
        let origin = state.run.as_ref().map_or(Origin::Loop, |it| Origin::Run(&it.id));
        self.sink.emit(origin, &Info { message });
    }
}

/// The files that were attached to a prompt.
#[derive(Default)]
struct Attached {
    paths: Vec<String>,
    n_bytes: usize,
    n_tried: usize,
}

impl Attached {
    /// The text with files behind the paths that it mentions.
    async fn expand(&mut self, fs: &dyn Fs, text: &str) -> String {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, mention, after)) = next_mention(rest) {
            expanded.push_str(before);
            rest = after;
            match self.read(fs, mention).await {
                Some((path, content)) => {
                    expanded.push_str(&format!("@{path}\n<file path=\"{path}\">\n{content}\n</file>"));
                    expanded.push_str(&mention[path.len()..]);
                }
                None => {
                    expanded.push('@');
                    expanded.push_str(mention);
                }
            }
        }
        expanded.push_str(rest);
        expanded
    }

    /// The file that a mention means, with or without the punctuation behind it.
    async fn read<'a>(&mut self, fs: &dyn Fs, mention: &'a str) -> Option<(&'a str, String)> {
        self.n_tried += 1;
        if self.n_tried > MOST_MENTIONS || self.n_bytes >= ALL_FILES_BYTES {
            return None;
        }
        let bare = mention.trim_end_matches(PUNCTUATION);
        let is_bare = bare.len() == mention.len();
        for path in [mention, bare].into_iter().take(if is_bare { 1 } else { 2 }) {
            if !is_inside(path) {
                continue;
            }
            let Ok(file) = fs.read(path, FILE_BYTES).await else { continue };
            // A link may lead out of the workspace; what lies there is told by its whole path.
            if !is_inside(&file.target.display_path) {
                continue;
            }
            let Ok(content) = String::from_utf8(file.content) else { continue };
            if self.n_bytes + content.len() > ALL_FILES_BYTES {
                return None;
            }
            self.n_bytes += content.len();
            self.paths.push(path.to_owned());
            return Some((path, content));
        }
        None
    }
}

/// What stands before the next mention, the mention without its `@`, and what stands behind it.
fn next_mention(text: &str) -> Option<(&str, &str, &str)> {
    let begins = |at: usize| text[..at].chars().next_back().is_none_or(char::is_whitespace);
    let at = text.match_indices('@').map(|(at, _)| at).find(|at| begins(*at))?;
    let behind = &text[at + 1..];
    let end = behind.find(char::is_whitespace).unwrap_or(behind.len());
    Some((&text[..at], &behind[..end], &behind[end..]))
}

/// Whether a path names something in the workspace, as far as its words tell. What a prompt mentions is held to it, also where
/// tools are not.
fn is_inside(path: &str) -> bool {
    let is_down = |it: Component<'_>| matches!(it, Component::Normal(_) | Component::CurDir);
    !path.is_empty() && Path::new(path).components().all(is_down)
}

/// Whether a picture is named by its file.
fn is_path(url: &str) -> bool {
    !["data:", "http://", "https://"].iter().any(|it| url.starts_with(it))
}

/// Why a picture cannot be shown to a model.
#[derive(Debug, thiserror::Error)]
enum PictureError {
    #[error(transparent)]
    File(#[from] FsError),
    #[error("it is none that models can see; PNG, JPEG, GIF and WebP are")]
    Kind,
}

/// A picture as a `data:` URL.
async fn picture(fs: &dyn Fs, path: &str) -> Result<String, PictureError> {
    let file = fs.read(path, PICTURE_BYTES).await?;
    let kind = kind_of(&file.content).ok_or(PictureError::Kind)?;
    Ok(format!("data:{kind};base64,{}", STANDARD.encode(&file.content)))
}

/// The kind of a picture, by how it begins.
fn kind_of(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mention_begins_a_word() {
        assert_eq!(next_mention("see @a/b.rs, ok"), Some(("see ", "a/b.rs,", " ok")));
        assert_eq!(next_mention("@x"), Some(("", "x", "")));
        assert_eq!(next_mention("mail me@home or @you"), Some(("mail me@home or ", "you", "")));
        assert_eq!(next_mention("nothing@all"), None);
    }

    #[test]
    fn what_lies_elsewhere_is_not_brought_along() {
        assert!(is_inside("a/b.rs") && is_inside("./a"));
        assert!(!is_inside("/etc/passwd") && !is_inside("../a") && !is_inside("a/../../b") && !is_inside(""));
    }

    #[test]
    fn a_picture_is_known_by_how_it_begins() {
        assert_eq!(kind_of(b"\x89PNG\r\n"), Some("image/png"));
        assert_eq!(kind_of(b"RIFF....WEBPVP8 "), Some("image/webp"));
        assert_eq!(kind_of(b"<svg/>"), None);
        assert!(is_path("/tmp/a.png") && !is_path("data:image/png;base64,AA") && !is_path("https://x.invalid/a.png"));
    }
}
