//! Places between places: numbers for entries that come between others, without touching those.

/// Numbers of one level. Compared number by number, shorter first.
pub(crate) type Level = Vec<u32>;

/// The distance between neighbours that are numbered together.
const STEP: u32 = 1 << 16;

/// The place that levels make, the outermost first. No place of one level begins another.
pub(crate) fn placed<'a>(levels: impl IntoIterator<Item = &'a Level>) -> Vec<u32> {
    levels.into_iter().flat_map(|level| level.iter().map(|it| it + 1).chain([0])).collect()
}

/// A level after `low` and before `high`, where there are such. It does not end with 0, so there is room before it.
pub(crate) fn between(low: Option<&[u32]>, high: Option<&[u32]>) -> Level {
    let mut level = Level::new();
    let (mut low, mut high) = (low, high);
    loop {
        let from = low.and_then(|it| it.first().copied());
        let to = high.and_then(|it| it.first().copied());
        let start = from.unwrap_or(0);
        match to {
            // With room between them a number of its own ends it.
            Some(end) if end - start > 1 => {
                level.push(start + (end - start) / 2);
                return level;
            }
            None if from.is_none_or(|it| it < u32::MAX - STEP) => {
                level.push(start + STEP);
                return level;
            }
            None => {
                level.push(start);
                low = low.and_then(|it| it.get(1..)).filter(|it| !it.is_empty());
            }
            Some(end) => {
                level.push(start);
                low = low.and_then(|it| it.get(1..)).filter(|it| !it.is_empty());
                // Below a number that is smaller than that of `high`, everything is before it.
                high = if start == end { high.and_then(|it| it.get(1..)).filter(|it| !it.is_empty()) } else { None };
            }
        }
    }
}

/// Levels for entries in a new order, by their old ones: as many as can keep theirs.
pub(crate) fn arranged(old: &[Option<Level>]) -> Vec<Level> {
    let kept = longest_rising(old);
    let mut levels: Vec<Option<Level>> =
        old.iter().enumerate().map(|(at, level)| level.clone().filter(|_| kept.contains(&at))).collect();
    for at in 0..levels.len() {
        if levels[at].is_some() {
            continue;
        }
        let low = at.checked_sub(1).and_then(|it| levels[it].clone());
        let high = levels[at..].iter().flatten().next().cloned();
        levels[at] = Some(between(low.as_deref(), high.as_deref()));
    }
    levels.into_iter().flatten().collect()
}

/// Indices of a longest rising run among those that have a level.
fn longest_rising(levels: &[Option<Level>]) -> Vec<usize> {
    // For each length the index of the smallest end, and before each index the one it follows.
    let (mut ends, mut before): (Vec<usize>, Vec<Option<usize>>) = (Vec::new(), vec![None; levels.len()]);
    for (at, level) in levels.iter().enumerate() {
        if level.is_none() {
            continue;
        }
        let length = ends.partition_point(|end| levels[*end] < *level);
        before[at] = length.checked_sub(1).map(|it| ends[it]);
        if length == ends.len() {
            ends.push(at);
        } else {
            ends[length] = at;
        }
    }
    let mut run: Vec<_> = std::iter::successors(ends.last().copied(), |at| before[*at]).collect();
    run.reverse();
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_a_place_between() {
        let mut levels = vec![between(None, None)];
        // In front, behind, and again and again at one spot.
        for round in 0..2000_usize {
            let at = match round % 3 {
                0 => 0,
                1 => levels.len(),
                _ => levels.len() / 2,
            };
            let low = at.checked_sub(1).map(|it| levels[it].clone());
            let level = between(low.as_deref(), levels.get(at).map(Vec::as_slice));
            levels.insert(at, level);
            assert!(levels.is_sorted_by(|a, b| a < b), "round {round}: {levels:?}");
        }
        // No place is the beginning of another: what is below one entry must not come between others.
        let places: Vec<_> = levels.iter().map(|it| placed([it])).collect();
        assert!(places.is_sorted_by(|a, b| a < b));
        assert!(places.windows(2).all(|it| !it[1].starts_with(&it[0])));
    }

    #[test]
    fn as_few_as_possible_move() {
        let old: Vec<_> = [3, 1, 2, 4].iter().map(|it| Some(vec![it * STEP])).collect();
        let new = arranged(&old);
        assert!(new.is_sorted_by(|a, b| a < b));
        assert_eq!(new.iter().zip(&old).filter(|(new, old)| Some(*new) != old.as_ref()).count(), 1);
        let new = arranged(&[None, Some(vec![STEP]), None]);
        assert_eq!(new[1], [STEP]);
        assert!(new.is_sorted_by(|a, b| a < b));
        assert!(arranged(&[]).is_empty());
    }
}
