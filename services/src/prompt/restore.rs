//! What is protected goes back to where it was, whatever listeners made of it.

use std::collections::HashSet;

use crate::model::ToolSchema;
use crate::prompt::AssembledSection;

/// Something with a name in a list of a prompt.
pub(crate) trait Named: Clone {
    fn name(&self) -> &str;
}

impl Named for AssembledSection {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for ToolSchema {
    fn name(&self) -> &str {
        self.name.as_str()
    }
}

/// Puts what is protected back into `changed` as it stands in `canonical`: each before the next one that is not protected
/// and is there still, at the end if there is none. What is protected and not in `canonical` goes.
pub(crate) fn restore<T: Named>(canonical: &[T], mut changed: Vec<T>, protected: &HashSet<String>) -> Vec<T> {
    if protected.is_empty() {
        return changed;
    }
    changed.retain(|it| !protected.contains(it.name()));
    for (at, item) in canonical.iter().enumerate().filter(|(_, it)| protected.contains(it.name())) {
        let mut behind = canonical[at + 1..].iter().filter(|it| !protected.contains(it.name()));
        let place = behind.find_map(|next| changed.iter().position(|it| it.name() == next.name()));
        changed.insert(place.unwrap_or(changed.len()), item.clone());
    }
    changed
}
