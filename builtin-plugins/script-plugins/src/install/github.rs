//! Releases on GitHub.

use std::collections::BTreeMap;

use linn_bus::BoxFuture;
use serde_json::{Value, json};

use crate::admin::Admin;
use crate::install::{InstallError, Source};

/// How large an archive may be.
const ARCHIVE_LIMIT_BYTES: usize = 64 * 1024 * 1024;

/// How large an answer about a release may be.
const ANSWER_LIMIT_BYTES: usize = 4 * 1024 * 1024;

/// Gets what is at an address.
pub(crate) trait Fetch: Send + Sync + 'static {
    /// Gets it, up to a size. Redirects are followed, and headers of authorisation go to no other host.
    fn get(
        &self,
        url: String,
        headers: BTreeMap<&'static str, String>,
        limit_bytes: usize,
    ) -> BoxFuture<'static, Result<Fetched, FetchError>>;
}

/// What was there.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Why nothing was got.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("{0}")]
    Failed(String),
    /// It is larger than is taken; how large it says it is, or how much had come.
    #[error("it has {0} bytes or more")]
    TooLarge(u64),
}

fn refuse(what: String) -> InstallError {
    InstallError::Release(what)
}

/// The beginning of a text, cut between two characters.
fn begin(text: &str, limit_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(limit_bytes)]
}

/// Gets the archive of a release, and what to write down about where it came from.
pub(crate) async fn release(
    fetch: &dyn Fetch,
    api: &str,
    admin: &Admin,
    source: &Source,
) -> Result<(Vec<u8>, String), InstallError> {
    let Source { owner, repo, tag, subdir } = source;
    let which = tag.as_ref().map_or("latest".to_owned(), |tag| format!("tags/{}", encoded(tag)));
    let mut headers = BTreeMap::from([
        ("accept", "application/vnd.github+json".to_owned()),
        ("x-github-api-version", "2022-11-28".to_owned()),
    ]);
    let setting = admin.setting();
    let token = ["GITHUB_TOKEN", "GH_TOKEN"].iter().find_map(|it| setting.variable(it).filter(|it| !it.is_empty()));
    if let Some(token) = token {
        headers.insert("authorization", format!("Bearer {token}"));
    }
    let url = format!("{}/repos/{owner}/{repo}/releases/{which}", api.trim_end_matches('/'));
    let answered = fetch.get(url, headers.clone(), ANSWER_LIMIT_BYTES).await;
    let answered = answered.map_err(|it| refuse(format!("GitHub API request failed: {it}")))?;
    let text = String::from_utf8_lossy(&answered.body);
    match (answered.status, tag) {
        (200..=299, _) => {}
        (404, Some(tag)) => {
            return Err(refuse(format!(
                "no GitHub Release '{tag}' for {owner}/{repo}; publish a Release (recommended for versioning and updates) \
                 or check the tag"
            )));
        }
        (404, None) => {
            return Err(refuse(format!(
                "no GitHub Releases found for {owner}/{repo}; publish a Release so the install can download a versioned \
                 source .zip (required for URL installs and future auto-updates)"
            )));
        }
        (status, _) => {
            return Err(refuse(format!("GitHub API {status} for {owner}/{repo}: {}", begin(&text, 200))));
        }
    }
    let answer: Value = serde_json::from_str(&text)
        .map_err(|it| refuse(format!("GitHub release JSON parse error: {it} ({})", begin(&text, 120))))?;
    let found_tag = answer.get("tag_name").and_then(Value::as_str).or(tag.as_deref()).unwrap_or_default().to_owned();
    let archive = answer.get("zipball_url").and_then(Value::as_str).filter(|it| !it.is_empty());
    let archive =
        archive.ok_or_else(|| refuse(format!("GitHub release '{found_tag}' for {owner}/{repo} has no zipball_url")))?;
    let fetched = fetch.get(archive.to_owned(), headers, ARCHIVE_LIMIT_BYTES).await.map_err(|why| match why {
        FetchError::TooLarge(n) => {
            refuse(format!("release source zip is too large ({n} bytes; max {ARCHIVE_LIMIT_BYTES} bytes)"))
        }
        FetchError::Failed(why) => refuse(format!("download release source zip failed: {why}")),
    })?;
    if !(200..=299).contains(&fetched.status) {
        return Err(refuse(format!("download release source zip failed: HTTP {}", fetched.status)));
    }
    let mut note = json!({
        "kind": "github_release",
        "owner": owner,
        "repo": repo,
        "tag": found_tag,
        "url": format!("https://github.com/{owner}/{repo}"),
        "installed_at": admin.fleet.scripts.now(),
    });
    if let Some(subdir) = subdir {
        note["subdir"] = subdir.as_str().into();
    }
    Ok((fetched.body, format!("{note:#}\n")))
}

/// A tag as a part of a path.
fn encoded(tag: &str) -> String {
    let byte = |it: u8| {
        let is_plain = it.is_ascii_alphanumeric() || matches!(it, b'-' | b'.' | b'_' | b'~');
        if is_plain { char::from(it).to_string() } else { format!("%{it:02X}") }
    };
    tag.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_20_22_texts_are_cut_between_characters() {
        assert_eq!(begin("äöü", 3), "ä");
        assert_eq!(begin("abc", 10), "abc");
        assert_eq!(encoded("v1/ä"), "v1%2F%C3%A4");
    }
}
