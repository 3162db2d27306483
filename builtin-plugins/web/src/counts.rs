//! How often each service was searched this month, kept in a file that several programs share.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use linn_bus::Clock;
use serde::{Deserialize, Serialize};

/// Searches by service, of one month.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Month {
    /// The month, as `2026-01`, in UTC.
    month: String,
    searches: BTreeMap<String, u64>,
}

/// Counts searches. Without a file they are counted for this program alone.
#[derive(Debug)]
pub(crate) struct Counts {
    file: Option<PathBuf>,
    in_memory: Mutex<Month>,
}

impl Counts {
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self { file, in_memory: Mutex::default() }
    }

    /// Takes one search of `service` from its budget of this month; `false` if that is used up.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written; the search is not counted then.
    pub(crate) fn take(&self, clock: &dyn Clock, service: &str, limit: u64) -> io::Result<bool> {
        let now = clock.now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let month = month_of(now);
        match &self.file {
            Some(path) => take_in_file(path, &month, service, limit),
            None => {
                let mut counts = self.in_memory.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(counts.take(&month, service, limit))
            }
        }
    }
}

impl Month {
    fn take(&mut self, month: &str, service: &str, limit: u64) -> bool {
        if self.month != month {
            *self = Self { month: month.to_owned(), searches: BTreeMap::new() };
        }
        let count = self.searches.entry(service.to_owned()).or_default();
        let is_left = *count < limit;
        *count += u64::from(is_left);
        is_left
    }
}

/// The file is locked while it is changed, so that two programs do not take one search twice.
fn take_in_file(path: &Path, month: &str, service: &str, limit: u64) -> io::Result<bool> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = private(path)?;
    file.lock()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    // What is damaged counts as nothing; it is a budget, not a record.
    let mut counts: Month = serde_json::from_str(&text).unwrap_or_default();
    let is_left = counts.take(month, service, limit);
    let text = serde_json::to_string(&counts)?;
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(text.as_bytes())?;
    Ok(is_left)
}

fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)
}

/// The month of a moment since 1970 UTC, by the calendar of Howard Hinnant's `civil_from_days`.
fn month_of(since_1970: Duration) -> String {
    let days = since_1970.as_secs() / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_is_told_by_the_calendar() {
        for (seconds, month) in [
            (0, "1970-01"),
            (951_782_399, "2000-02"),
            (951_868_800, "2000-03"),
            (1_796_083_199, "2026-11"),
            (1_796_083_200, "2026-12"),
            (1_798_761_600, "2027-01"),
        ] {
            assert_eq!(month_of(Duration::from_secs(seconds)), month, "{seconds}");
        }
    }

    #[test]
    fn a_budget_is_used_up_for_its_service_and_its_month_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("not yet/searches.json");
        for n in 0..3 {
            assert_eq!(take_in_file(&path, "2026-11", "exa", 2).unwrap(), n < 2);
        }
        assert!(take_in_file(&path, "2026-11", "tavily", 1).unwrap());
        assert!(take_in_file(&path, "2026-12", "exa", 2).unwrap());
        fs::write(&path, "{ damaged").unwrap();
        assert!(take_in_file(&path, "2026-12", "exa", 1).unwrap());
    }
}
