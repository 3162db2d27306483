//! Memory of a library that is not in use any more.

use std::path::Path;

/// Gives back the clean pages of a mapped file: its code and what is before it. Should anything still call into it, they come
/// from the file again. Returns how many bytes that were at most.
#[cfg(target_os = "linux")]
pub(crate) fn give_back(copy: &Path) -> u64 {
    let Ok(maps) = crate::system::read(Path::new("/proc/self/maps")) else { return 0 };
    let maps = String::from_utf8_lossy(&maps);
    let mut n_bytes = 0;
    for range in clean_ranges(&maps, &copy.to_string_lossy()) {
        let (start, length) = (range.start, range.end - range.start);
        // SAFETY: the range is a private mapping of a file that has never been written to: it is not writable, and the part
        // that the linker makes read-only after it wrote relocations is left out. Its pages are read from the file again
        // when they are next touched.
        let outcome = unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
        if outcome == 0 {
            n_bytes += length as u64;
        }
    }
    n_bytes
}

/// There is nothing to ask for elsewhere: the system takes clean pages when it needs them.
#[cfg(not(target_os = "linux"))]
pub(crate) fn give_back(_: &Path) -> u64 {
    0
}

/// The ranges of a file that are read or executed and were never written: everything up to the end of the code. What is
/// read-only behind it was written to by the linker.
#[cfg(target_os = "linux")]
fn clean_ranges(maps: &str, copy: &str) -> Vec<std::ops::Range<usize>> {
    let of_copy = |line: &&str| {
        let name = line.split_ascii_whitespace().skip(5).collect::<Vec<_>>().join(" ");
        name.strip_suffix(" (deleted)").unwrap_or(&name) == copy
    };
    let parsed = maps.lines().filter(of_copy).filter_map(|line| {
        let mut columns = line.split_ascii_whitespace();
        let (start, end) = columns.next()?.split_once('-')?;
        let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        Some((range, columns.next()?))
    });
    let all: Vec<_> = parsed.collect();
    let code = all.iter().rposition(|(_, rights)| rights.starts_with("r-x")).map_or(0, |it| it + 1);
    let clean = all.into_iter().take(code).filter(|(_, rights)| rights.as_bytes().get(1) == Some(&b'-'));
    clean.map(|(range, _)| range).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_to_is_left_alone() {
        let maps = "\
7f0000000000-7f0000001000 r--p 00000000 fe:00 9    /tmp/x y-1.so (deleted)\n\
7f0000001000-7f0000003000 r-xp 00001000 fe:00 9    /tmp/x y-1.so (deleted)\n\
7f0000003000-7f0000004000 r--p 00003000 fe:00 9    /tmp/x y-1.so (deleted)\n\
7f0000004000-7f0000005000 rw-p 00004000 fe:00 9    /tmp/x y-1.so (deleted)\n\
7f0000005000-7f0000006000 r-xp 00004000 fe:00 8    /tmp/x y-10.so\n";
        let ranges = clean_ranges(maps, "/tmp/x y-1.so");
        assert_eq!(ranges, [0x7f00_0000_0000..0x7f00_0000_1000, 0x7f00_0000_1000..0x7f00_0000_3000]);
    }
}
