//! What providers say of the use of their models.

use std::time::Duration;

use jiff::Timestamp;
use linn_services::providers::{ProviderSpec, ProviderUsage, UsageWindow};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use crate::endpoint::{Key, get, is_below};
use crate::fetch::{FetchError, Fetcher, Get};
use crate::login::Credentials;
use crate::presets::{ANTHROPIC, OPENAI};

/// How long a provider may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long an answer may be.
const LIMIT_BYTES: usize = 1 << 20;

/// How keys begin that stand for a login in a browser, where the wire of Claude models is spoken.
const OAUTH_KEY: &str = "sk-ant-oat";

/// Where the use of such a login is told.
const ANTHROPIC_USAGE: &str = "https://api.anthropic.com/api/oauth/usage";

/// What is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) with: &'a Credentials,
    pub(crate) model: &'a str,
}

/// What an answer says.
#[derive(Debug, Default, PartialEq)]
struct Told {
    plan: Option<String>,
    windows: Vec<UsageWindow>,
}

/// Asks the provider; whatever goes wrong is a message.
pub(crate) async fn of(fetcher: &Fetcher, asked: Asked<'_>) -> ProviderUsage {
    let spec = &asked.with.spec;
    let mut usage = ProviderUsage {
        provider: spec.name.clone(),
        provider_kind: spec.kind.clone(),
        model: asked.model.to_owned(),
        base_url: spec.base_url.clone(),
        ..ProviderUsage::default()
    };
    let silent = || format!("Provider `{}` does not publish usage stats for /usage.", spec.name);
    let is_login = asked.with.login.is_some();
    let Some((request, read)) = asked.with.secret().and_then(|key| request(spec, key, is_login)) else {
        usage.message = Some(silent());
        return usage;
    };
    match fetcher.json(request, PATIENCE).await {
        Ok(answer) => {
            let told = read(&answer);
            usage.available = told != Told::default();
            usage.message = (!usage.available).then(silent);
            (usage.plan, usage.windows) = (told.plan, told.windows);
        }
        Err(FetchError::Status { status: 404 | 405 | 501, .. } | FetchError::NotJson) => usage.message = Some(silent()),
        Err(error) => usage.message = Some(format!("Provider `{}` does not tell of its use: {error}.", spec.name)),
    }
    usage
}

type Read = fn(&Value) -> Told;

/// Where a provider tells of its use, and how its answer is read.
fn request(spec: &ProviderSpec, key: &SecretString, is_login: bool) -> Option<(Get, Read)> {
    let bearer = ProviderSpec { kind: OPENAI.to_owned(), ..spec.clone() };
    if is_below(&spec.base_url, "chatgpt.com") {
        let (backend, _) = spec.base_url.split_once("/codex").unwrap_or((&spec.base_url, ""));
        return Some((get(&bearer, Key::api(Some(key)), format!("{backend}/wham/usage"), LIMIT_BYTES), read_codex));
    }
    if spec.kind == ANTHROPIC && is_below(&spec.base_url, "anthropic.com") {
        if !is_login && !key.expose_secret().starts_with(OAUTH_KEY) {
            return None;
        }
        let mut request = get(&bearer, Key::api(Some(key)), ANTHROPIC_USAGE.to_owned(), LIMIT_BYTES);
        request.headers.push(("anthropic-beta".to_owned(), "oauth-2025-04-20".into()));
        return Some((request, read_anthropic));
    }
    Some((get(&bearer, Key::api(Some(key)), format!("{}/usage", spec.base_url), LIMIT_BYTES), read_plan))
}

fn number(value: &Value, path: &str) -> Option<f64> {
    let value = value.pointer(path)?;
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok()).filter(|it| it.is_finite())
}

/// A moment in seconds, told as such or as a date.
fn moment(value: Option<&Value>) -> Option<i64> {
    let value = value?;
    let date = || Some(value.as_str()?.parse::<Timestamp>().ok()?.as_second());
    value.as_i64().or_else(date)
}

fn window(id: &str, label: &str, unit: &str) -> UsageWindow {
    UsageWindow {
        id: id.to_owned(),
        label: label.to_owned(),
        unit: unit.to_owned(),
        used: None,
        limit: None,
        resets_at: None,
        detail: None,
    }
}

/// A plan with sessions side by side, requests in a window of time, and tokens.
fn read_plan(answer: &Value) -> Told {
    let mut windows = Vec::new();
    let (used, limit) = (number(answer, "/usage/concurrent_sessions"), number(answer, "/limits/concurrency/limit"));
    if used.is_some() || limit.is_some() {
        windows.push(UsageWindow { used, limit, ..window("concurrency", "Concurrent sessions", "sessions") });
    }
    let (used, limit) = (number(answer, "/usage/requests_in_window"), number(answer, "/limits/requests/limit"));
    if used.is_some() || limit.is_some() {
        let minutes = number(answer, "/window/remaining_minutes");
        windows.push(UsageWindow {
            used,
            limit,
            resets_at: moment(answer.pointer("/window/resets_at")),
            detail: minutes.map(|it| format!("{it:.0} min left in the window")),
            ..window("requests", "Requests", "requests")
        });
    }
    let (read, written) = (number(answer, "/usage/tokens_in"), number(answer, "/usage/tokens_out"));
    if read.is_some() || written.is_some() {
        let (read, written) = (read.unwrap_or(0.0), written.unwrap_or(0.0));
        let detail = Some(format!("{read:.0} in, {written:.0} out"));
        windows.push(UsageWindow { used: Some(read + written), detail, ..window("tokens", "Tokens", "tokens") });
    }
    let plan = answer.pointer("/plan/display_name").and_then(Value::as_str).map(str::to_owned);
    Told { plan, windows }
}

/// Windows of time of which a part is used.
fn read_codex(answer: &Value) -> Told {
    let mut windows = Vec::new();
    for path in ["/rate_limit/primary_window", "/rate_limit/secondary_window"] {
        let Some(limit) = answer.pointer(path).filter(|it| it.is_object()) else { continue };
        let (id, label) = match number(limit, "/limit_window_seconds").map(|it| it / 3600.0) {
            Some(hours) if hours <= 24.0 => ("five_hour".to_owned(), format!("{hours:.0} hours")),
            Some(hours) => ("weekly".to_owned(), format!("{:.0} days", hours / 24.0)),
            None => (path.rsplit('/').next().unwrap_or_default().to_owned(), "Limit".to_owned()),
        };
        windows.push(percent(&id, &label, number(limit, "/used_percent"), moment(limit.get("reset_at"))));
    }
    let plan = answer.get("plan_type").and_then(Value::as_str).map(str::to_owned);
    Told { plan, windows }
}

/// Windows by name, each with the part that is used.
fn read_anthropic(answer: &Value) -> Told {
    let windows = answer.as_object().into_iter().flatten().filter_map(|(id, limit)| {
        let used = number(limit, "/utilization")?;
        let mut label = id.replace('_', " ");
        if let Some(first) = label.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        Some(percent(id, &label, Some(used), moment(limit.get("resets_at"))))
    });
    Told { plan: None, windows: windows.collect() }
}

fn percent(id: &str, label: &str, used: Option<f64>, resets_at: Option<i64>) -> UsageWindow {
    UsageWindow { used, limit: Some(100.0), resets_at, ..window(id, label, "percent") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(told: &Told) -> Vec<String> {
        let shown = |it: &UsageWindow| format!("{} {:?}/{:?} {} {:?}", it.id, it.used, it.limit, it.unit, it.resets_at);
        told.windows.iter().map(shown).collect()
    }

    #[test]
    fn wp_8_7_a_plan_is_read() {
        let told = read_plan(&json!({
            "plan": { "display_name": "Max" },
            "usage": { "concurrent_sessions": 1, "requests_in_window": 48, "tokens_in": 1200, "tokens_out": "34" },
            "limits": { "concurrency": { "limit": 4 }, "requests": { "limit": 200 } },
            "window": { "resets_at": "1970-01-01T00:01:00Z", "remaining_minutes": 12 },
        }));
        assert_eq!(told.plan.as_deref(), Some("Max"));
        assert_eq!(
            shown(&told),
            [
                "concurrency Some(1.0)/Some(4.0) sessions None",
                "requests Some(48.0)/Some(200.0) requests Some(60)",
                "tokens Some(1234.0)/None tokens None",
            ]
        );
        assert_eq!(read_plan(&json!({ "object": "list" })), Told::default());
    }

    #[test]
    fn wp_8_7_parts_of_windows_are_read() {
        let told = read_codex(&json!({ "plan_type": "pro", "rate_limit": {
            "primary_window": { "used_percent": 12.5, "limit_window_seconds": 18000, "reset_at": 99 },
            "secondary_window": { "used_percent": 3, "limit_window_seconds": 604800, "reset_at": 100 } } }));
        assert_eq!(
            shown(&told),
            ["five_hour Some(12.5)/Some(100.0) percent Some(99)", "weekly Some(3.0)/Some(100.0) percent Some(100)",]
        );
        let told = read_anthropic(&json!({ "five_hour": { "utilization": 40, "resets_at": null }, "extra": null }));
        assert_eq!(shown(&told), ["five_hour Some(40.0)/Some(100.0) percent None"]);
    }

    #[test]
    fn wp_8_7_each_provider_is_asked_where_it_tells() {
        let url = |base_url: &str, kind: &str, key: &str| {
            let spec = ProviderSpec { base_url: base_url.into(), kind: kind.into(), ..ProviderSpec::default() };
            request(&spec, &key.into(), false).map(|it| it.0.url)
        };
        assert_eq!(url("https://h/v1", "openai", "k").as_deref(), Some("https://h/v1/usage"));
        let codex = url("https://chatgpt.com/backend-api/codex", "openai", "k");
        assert_eq!(codex.as_deref(), Some("https://chatgpt.com/backend-api/wham/usage"));
        assert_eq!(url("https://api.anthropic.com/v1", "anthropic", "sk-ant-oat-1").as_deref(), Some(ANTHROPIC_USAGE));
        assert_eq!(url("https://api.anthropic.com/v1", "anthropic", "sk-ant-api-1"), None);
    }
}
