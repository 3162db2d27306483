//! How long to wait before another try.

use std::time::{Duration, SystemTime};

use crate::llm::wire::HttpResponse;

/// The longest wait an endpoint may ask for, in milliseconds; a call that would have to wait longer fails at once.
pub const MAX_HINT_MS: u64 = 60_000;

/// The shortest wait an endpoint may ask for, in milliseconds.
const MIN_HINT_MS: u64 = 50;

const FIRST_MS: u64 = 500;
const LONGEST_MS: u64 = 8000;

/// What comes after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backoff {
    /// Another one, after this many milliseconds.
    Wait(u64),
    /// None: the endpoint wants this many milliseconds, which are too many.
    TooLong(u64),
}

impl Backoff {
    /// After attempt `attempt` (from 1) failed, for which the endpoint gave `hint_ms`.
    pub fn after(attempt: u32, hint_ms: Option<u64>) -> Self {
        match hint_ms {
            Some(hint) if hint > MAX_HINT_MS => Self::TooLong(hint),
            Some(hint) => Self::Wait(hint.max(MIN_HINT_MS)),
            None => Self::Wait(FIRST_MS.saturating_mul(1 << (attempt.max(1) - 1).min(16)).min(LONGEST_MS)),
        }
    }
}

/// When the endpoint wants to be asked again, in milliseconds from `now`: `retry-after-ms`, else
/// `x-ratelimit-reset-after` in seconds, else `retry-after` in seconds or as a date.
pub fn hint_ms(response: &HttpResponse, now: SystemTime) -> Option<u64> {
    let number = |name: &str, scale: f64| {
        let value: f64 = response.header(name)?.trim().parse().ok()?;
        Duration::try_from_secs_f64(value * scale / 1000.0).ok().map(millis)
    };
    let date = || {
        let at = httpdate::parse_http_date(response.header("retry-after")?.trim()).ok()?;
        Some(at.duration_since(now).map_or(0, millis))
    };
    number("retry-after-ms", 1.0)
        .or_else(|| number("x-ratelimit-reset-after", 1000.0))
        .or_else(|| number("retry-after", 1000.0))
        .or_else(date)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit() {
        let waits: Vec<_> = (1..=6).map(|attempt| Backoff::after(attempt, None)).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 8000].map(Backoff::Wait));
        assert_eq!(Backoff::after(u32::MAX, None), Backoff::Wait(8000));
    }

    #[test]
    fn r026_the_endpoint_may_say_how_long_to_wait() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let later = httpdate::fmt_http_date(now + Duration::from_secs(3));
        let before = httpdate::fmt_http_date(now - Duration::from_secs(3));
        for (headers, expected) in [
            (&[("retry-after-ms", "120"), ("retry-after", "9")][..], Some(Backoff::Wait(120))),
            (&[("retry-after", "9"), ("x-ratelimit-reset-after", "1.5")], Some(Backoff::Wait(1500))),
            (&[("retry-after", "1")], Some(Backoff::Wait(1000))),
            (&[("retry-after", "0")], Some(Backoff::Wait(50))),
            (&[("retry-after", &later)], Some(Backoff::Wait(3000))),
            (&[("retry-after", &before)], Some(Backoff::Wait(50))),
            (&[("retry-after", "60")], Some(Backoff::Wait(60_000))),
            (&[("retry-after", "18000")], Some(Backoff::TooLong(18_000_000))),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "soon")], None),
            (&[], None),
        ] {
            let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let body = Box::pin(futures_util::stream::empty());
            let response = HttpResponse { status: 429, reason: String::new(), headers, body };
            let hint = hint_ms(&response, now);
            assert_eq!(hint.map(|it| Backoff::after(1, Some(it))), expected, "{:?}", response.headers);
        }
    }
}
