//! Memory of a library that is not in use any more.

use std::path::Path;

/// Gives back the memory of a mapped library, which stays where it is: should anything still call into it or look at it, its
/// pages come from a file again. Its code and what is before it come from the library itself; what the linker wrote to, and
/// nobody can write to since, is put into a file below `folder`. Returns how many bytes that were at most.
///
/// What is left is what the library itself may write to.
#[cfg(target_os = "linux")]
pub(crate) fn give_back(copy: &Path, folder: &Path) -> u64 {
    let Ok(maps) = crate::system::read(Path::new("/proc/self/maps")) else { return 0 };
    let mut n_bytes = 0;
    for segment in segments(&maps, copy.as_os_str().as_encoded_bytes()) {
        let is_given = match segment.kind {
            Kind::Clean => forget(&segment.range),
            Kind::Linked => put_away(&segment.range, copy, folder),
            Kind::Writable => false,
        };
        if is_given {
            n_bytes += segment.range.len() as u64;
        }
    }
    n_bytes
}

/// There is nothing to ask for elsewhere: the system takes clean pages when it needs them.
#[cfg(not(target_os = "linux"))]
pub(crate) fn give_back(_: &Path, _: &Path) -> u64 {
    0
}

#[cfg(target_os = "linux")]
fn forget(range: &std::ops::Range<usize>) -> bool {
    // SAFETY: the range is a private mapping of a file that has never been written to: it is not writable, and the part that
    // the linker makes read-only after it wrote relocations is of another kind. Its pages are read from the file again when
    // they are next touched.
    let outcome = unsafe { libc::madvise(range.start as *mut libc::c_void, range.len(), libc::MADV_DONTNEED) };
    outcome == 0
}

/// Writes what is in memory to a file, and maps that in its place. Where anything fails, everything stays as it is.
#[cfg(target_os = "linux")]
fn put_away(range: &std::ops::Range<usize>, copy: &Path, folder: &Path) -> bool {
    use std::os::fd::AsRawFd as _;

    let name = copy.file_name().unwrap_or_default().to_string_lossy();
    let path = folder.join(format!("{name}-{:x}", range.start));
    // SAFETY: the range is mapped and readable, as the system just said; the linker has done with it, nothing else may write
    // to it, and no library is ever unmapped, so what it holds does not change.
    let bytes = unsafe { std::slice::from_raw_parts(range.start as *const u8, range.len()) };
    let file = crate::system::write_new(&path, bytes).and_then(|()| crate::system::open(&path));
    // Nothing is left behind: a file that is mapped stays as long as that.
    crate::system::remove(&path);
    let Ok(file) = file else { return false };
    let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
    // SAFETY: the range is one whole mapping of a library of ours; the new one has the same place, the same bytes and the same
    // rights, and the system puts it there in one step, so whoever reads there notices nothing. The file is nobody else's.
    let mapped = unsafe {
        libc::mmap(range.start as *mut libc::c_void, range.len(), libc::PROT_READ, flags, file.as_raw_fd(), 0)
    };
    mapped != libc::MAP_FAILED
}

/// What may be done with a part of a library.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It is as it is in the file.
    Clean,
    /// The linker wrote to it, and nobody may now.
    Linked,
    /// It may be written to.
    Writable,
}

#[cfg(target_os = "linux")]
#[derive(Debug, PartialEq, Eq)]
struct Segment {
    range: std::ops::Range<usize>,
    kind: Kind,
}

/// The parts of a mapped file. Everything read-only up to the end of its code is clean; what is read-only behind that was
/// written to by the linker.
#[cfg(target_os = "linux")]
fn segments(maps: &[u8], copy: &[u8]) -> Vec<Segment> {
    let mut all = Vec::new();
    for at in memchr::memmem::find_iter(maps, copy) {
        let start = memchr::memrchr(b'\n', &maps[..at]).map_or(0, |it| it + 1);
        let behind = &maps[at + copy.len()..];
        let end = memchr::memchr(b'\n', behind).unwrap_or(behind.len());
        // A name that begins or ends so is another file's.
        let is_whole = matches!(&behind[..end], b"" | b" (deleted)") && maps[..at].ends_with(b" ");
        if is_whole && let Some((range, rights)) = parsed(&maps[start..at]) {
            all.push((range, rights));
        }
    }
    let code = all.iter().rposition(|(_, rights)| rights.starts_with("r-x")).map_or(0, |it| it + 1);
    let kind = |at: usize, rights: &str| match rights.as_bytes().get(1) {
        Some(b'-') if at < code => Kind::Clean,
        Some(b'-') if rights.starts_with("r-") => Kind::Linked,
        _ => Kind::Writable,
    };
    all.into_iter().enumerate().map(|(at, (range, rights))| Segment { kind: kind(at, rights), range }).collect()
}

#[cfg(target_os = "linux")]
fn parsed(line: &[u8]) -> Option<(std::ops::Range<usize>, &str)> {
    let mut columns = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let (start, end) = columns.next()?.split_once('-')?;
    let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
    Some((range, columns.next()?))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_to_is_told_from_what_is_as_it_was() {
        let maps = "\
7f0000000000-7f0000001000 r--p 00000000 fe:00 9    /tmp/x y-1.so (deleted)\n\
7f0000001000-7f0000003000 r-xp 00001000 fe:00 9    /tmp/x y-1.so (deleted)\n\
7f0000003000-7f0000004000 r--p 00003000 fe:00 9    /tmp/x y-1.so (deleted)\n\
7f0000004000-7f0000005000 rw-p 00004000 fe:00 9    /tmp/x y-1.so (deleted)\n\
7f0000005000-7f0000006000 r-xp 00004000 fe:00 8    /tmp/x y-1.so-10\n\
7f0000006000-7f0000007000 r-xp 00004000 fe:00 8    /other/tmp/x y-1.so\n";
        let kinds: Vec<_> = segments(maps.as_bytes(), b"/tmp/x y-1.so").into_iter().map(|it| it.kind).collect();
        assert_eq!(kinds, [Kind::Clean, Kind::Clean, Kind::Linked, Kind::Writable]);
        let ranges: Vec<_> = segments(maps.as_bytes(), b"/tmp/x y-1.so").into_iter().map(|it| it.range).collect();
        assert_eq!(ranges[0], 0x7f00_0000_0000..0x7f00_0000_1000);
        assert_eq!(ranges[2], 0x7f00_0000_3000..0x7f00_0000_4000);
        assert!(segments(maps.as_bytes(), b"/tmp/x").is_empty());
    }
}
