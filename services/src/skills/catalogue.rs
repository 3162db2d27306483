//! Which skill of many with one name counts, and what is no skill.

use crate::skills::{SkillCandidate, SkillError};

/// A skill with what decides between it and others of its name.
#[derive(Debug, Clone)]
pub(super) struct Ranked {
    pub(super) candidate: SkillCandidate,
    /// Place of its provider.
    pub(super) provider_order: usize,
    /// Place in the list of its provider.
    pub(super) local_order: usize,
}

/// One skill a name, by name: the lowest rank, then the earliest provider, then the earliest place.
pub(super) fn winners(mut all: Vec<Ranked>) -> Vec<SkillCandidate> {
    all.sort_by(|a, b| {
        let name = a.candidate.summary.name.cmp(&b.candidate.summary.name);
        let rank = a.candidate.rank.total_cmp(&b.candidate.rank);
        let order = (a.provider_order, a.local_order).cmp(&(b.provider_order, b.local_order));
        name.then(rank).then(order)
    });
    all.dedup_by(|later, first| later.candidate.summary.name == first.candidate.summary.name);
    all.into_iter().map(|it| it.candidate).collect()
}

/// Whether a provider brought a skill.
pub(super) fn check(candidate: &SkillCandidate, provider: &str) -> Result<(), SkillError> {
    let summary = &candidate.summary;
    let why = if !is_name(&summary.name) {
        "a name has lower-case letters, digits and `-` between them, at most 64".to_owned()
    } else if summary.description.trim().is_empty() {
        "it has no description".to_owned()
    } else if !candidate.rank.is_finite() {
        format!("its rank is {}", candidate.rank)
    } else if summary.provider != provider {
        format!("it says that it comes from `{}`", summary.provider)
    } else {
        return Ok(());
    };
    Err(SkillError::Invalid { name: summary.name.clone(), provider: provider.to_owned(), why })
}

fn is_name(name: &str) -> bool {
    let is_word = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
    name.len() <= 64 && name.split('-').all(is_word)
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_are_words_with_single_dashes_between() {
        for good in ["a", "pdf", "read-pdf", "v2", "a-1-b"] {
            assert!(is_name(good), "{good}");
        }
        let long = "a".repeat(65);
        for bad in ["", "-", "a-", "-a", "a--b", "A", "a_b", "a b", "é", &long] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
