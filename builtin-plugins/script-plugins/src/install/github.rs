//! Releases on GitHub.

use std::time::Duration;

use linn_http::{Network, NetworkConfig, ReadError, Redirects, Request};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::admin::Admin;
use crate::install::{InstallError, Source};

/// How large an archive may be.
const ARCHIVE_LIMIT_BYTES: usize = 64 * 1024 * 1024;

/// How large an answer about a release may be.
const ANSWER_LIMIT_BYTES: usize = 4 * 1024 * 1024;

/// How long one answer may take, to its last byte.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How often a request is sent elsewhere.
const MAX_REDIRECTS: usize = 10;

/// The network, for releases.
pub(crate) fn network() -> Network {
    Network::new(NetworkConfig {
        timeout: Some(TIMEOUT),
        user_agent: Some(concat!("linn-plugin-install/", env!("CARGO_PKG_VERSION"))),
        redirects: Redirects::Followed(MAX_REDIRECTS),
        ..NetworkConfig::default()
    })
}

/// Gets what is at an address: its status, and its body up to a size.
async fn get(
    network: &Network,
    url: String,
    headers: &[(&str, SecretString)],
    limit_bytes: usize,
) -> Result<(u16, Vec<u8>), ReadError> {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let answer = network.send(Request::get(url).headers(headers)).await?;
    Ok((answer.status, answer.whole(limit_bytes).await?))
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
    network: &Network,
    api: &str,
    admin: &Admin,
    source: &Source,
) -> Result<(Vec<u8>, String), InstallError> {
    let Source { owner, repo, tag, subdir } = source;
    let which = tag.as_ref().map_or("latest".to_owned(), |tag| format!("tags/{}", encoded(tag)));
    let mut headers = vec![
        ("accept", SecretString::from("application/vnd.github+json")),
        ("x-github-api-version", SecretString::from("2022-11-28")),
    ];
    let setting = admin.setting();
    let token = ["GITHUB_TOKEN", "GH_TOKEN"].iter().find_map(|it| setting.variable(it).filter(|it| !it.is_empty()));
    if let Some(token) = token {
        headers.push(("authorization", format!("Bearer {token}").into()));
    }
    let url = format!("{}/repos/{owner}/{repo}/releases/{which}", api.trim_end_matches('/'));
    let answered = get(network, url, &headers, ANSWER_LIMIT_BYTES).await;
    let (status, body) = answered.map_err(|it| refuse(format!("GitHub API request failed: {it}")))?;
    let text = String::from_utf8_lossy(&body);
    match (status, tag) {
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
    let fetched = get(network, archive.to_owned(), &headers, ARCHIVE_LIMIT_BYTES).await;
    let (status, archive) = fetched.map_err(|why| match why {
        ReadError::TooLarge { size_bytes } => {
            refuse(format!("release source zip is too large ({size_bytes} bytes; max {ARCHIVE_LIMIT_BYTES} bytes)"))
        }
        why => refuse(format!("download release source zip failed: {why}")),
    })?;
    if !(200..=299).contains(&status) {
        return Err(refuse(format!("download release source zip failed: HTTP {status}")));
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
    Ok((archive, format!("{note:#}\n")))
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
