//! Starting a process by `posix_spawn`; see posix_spawn(3).

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::ptr;

use libc::{c_char, c_int, c_short, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t, sigset_t};
use rustix::process::Pid;

use super::Given;
use crate::launch::Launch;

/// Where programs are looked for if nothing says where.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// What runs a file that says of itself that it may be executed, and not by what.
const SHELL: &CStr = c"/bin/sh";

pub(super) fn spawn_at(launch: &Launch, given: Given) -> io::Result<Pid> {
    let program = text(program_of(launch)?.into_os_string())?;
    let arguments = launch.arguments.iter().map(|it| text(it.clone())).collect::<io::Result<Vec<_>>>()?;
    let variable = |(name, value): &(OsString, OsString)| text([name.as_os_str(), value].join(OsStr::new("=")));
    let environment = launch.environment.iter().map(variable).collect::<io::Result<Vec<_>>>()?;
    let cwd = text(launch.cwd.clone().into_os_string())?;

    let mut actions = Actions::new()?;
    for (given, number) in [&given.stdin, &given.stdout, &given.stderr].into_iter().zip(0..) {
        actions.be(number, given.as_ref())?;
    }
    actions.enter(&cwd)?;
    let attributes = Attributes::of_a_session()?;

    let first = text(launch.program.clone())?;
    let named = std::iter::once(first.as_c_str()).chain(arguments.iter().map(CString::as_c_str));
    match run(&program, named, &environment, &actions, &attributes) {
        Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
            let by_shell = [SHELL, &program].into_iter().chain(arguments.iter().map(CString::as_c_str));
            run(SHELL, by_shell, &environment, &actions, &attributes)
        }
        ran => ran,
    }
}

/// The program as a path.
fn program_of(launch: &Launch) -> io::Result<PathBuf> {
    if launch.program.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(&launch.program));
    }
    let path = launch.environment.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let mut places = std::env::split_paths(path.unwrap_or(OsStr::new(DEFAULT_PATH)))
        .map(|it| launch.cwd.join(it).join(&launch.program));
    let may_run = |it: &PathBuf| fs::metadata(it).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0);
    places.find(may_run).filter(|_| !launch.program.is_empty()).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn text(text: OsString) -> io::Result<CString> {
    CString::new(text.into_vec()).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a text holds a NUL byte"))
}

fn checked(code: c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

fn run<'a>(
    program: &CStr,
    arguments: impl Iterator<Item = &'a CStr>,
    environment: &[CString],
    actions: &Actions,
    attributes: &Attributes,
) -> io::Result<Pid> {
    let end = std::iter::once(ptr::null_mut());
    let arguments: Vec<*mut c_char> = arguments.map(|it| it.as_ptr().cast_mut()).chain(end.clone()).collect();
    let environment: Vec<*mut c_char> = environment.iter().map(|it| it.as_ptr().cast_mut()).chain(end).collect();
    let mut pid: pid_t = 0;
    // SAFETY: all texts end with a NUL and both lists with a null pointer, and they, the actions and the attributes, which
    // are initialised, live until the call returns. It writes to none of them, whatever its types say.
    let code = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            program.as_ptr(),
            actions.0.as_ptr(),
            attributes.0.as_ptr(),
            arguments.as_ptr(),
            environment.as_ptr(),
        )
    };
    checked(code)?;
    Pid::from_raw(pid).ok_or_else(|| io::Error::other("the system gave no process id"))
}

/// What the process does before its program runs. Boxed, since nothing says that such a list may be moved.
struct Actions(Box<MaybeUninit<posix_spawn_file_actions_t>>);

impl Actions {
    fn new() -> io::Result<Self> {
        let mut list = Box::new(MaybeUninit::uninit());
        // SAFETY: it is given room for a list, and makes one of it.
        checked(unsafe { libc::posix_spawn_file_actions_init(list.as_mut_ptr()) })?;
        Ok(Self(list))
    }

    /// Has its file `number` be this one, or nothing.
    fn be(&mut self, number: RawFd, given: Option<&OwnedFd>) -> io::Result<()> {
        let list = self.0.as_mut_ptr();
        checked(match given {
            // SAFETY: the list is initialised. The file is open, and stays so until the process runs.
            Some(given) => unsafe { libc::posix_spawn_file_actions_adddup2(list, given.as_raw_fd(), number) },
            // SAFETY: the list is initialised, and copies the path.
            None => unsafe {
                libc::posix_spawn_file_actions_addopen(list, number, c"/dev/null".as_ptr(), libc::O_RDWR, 0)
            },
        })
    }

    fn enter(&mut self, folder: &CStr) -> io::Result<()> {
        // SAFETY: the list is initialised, and copies the path.
        checked(unsafe { libc::posix_spawn_file_actions_addchdir_np(self.0.as_mut_ptr(), folder.as_ptr()) })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: it is initialised, and not used any more.
        unsafe { libc::posix_spawn_file_actions_destroy(self.0.as_mut_ptr()) };
    }
}

/// What the process is. Boxed for the same reason.
struct Attributes(Box<MaybeUninit<posix_spawnattr_t>>);

impl Attributes {
    /// A session of its own, and signals as a program finds them: the runtime of Rust does not want SIGPIPE, others do.
    fn of_a_session() -> io::Result<Self> {
        let mut it = Box::new(MaybeUninit::uninit());
        // SAFETY: it is given room for attributes, and makes some of it.
        checked(unsafe { libc::posix_spawnattr_init(it.as_mut_ptr()) })?;
        let mut this = Self(it);
        let attributes = this.0.as_mut_ptr();
        let mut signals = MaybeUninit::<sigset_t>::uninit();
        let flags = c_int::from(libc::POSIX_SPAWN_SETSID) | libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
        let flags = c_short::try_from(flags).map_err(io::Error::other)?;
        // SAFETY: the attributes are initialised, and so is the set, by the first call, before it is read.
        unsafe {
            libc::sigemptyset(signals.as_mut_ptr());
            checked(libc::posix_spawnattr_setsigmask(attributes, signals.as_ptr()))?;
            libc::sigaddset(signals.as_mut_ptr(), libc::SIGPIPE);
            checked(libc::posix_spawnattr_setsigdefault(attributes, signals.as_ptr()))?;
            checked(libc::posix_spawnattr_setflags(attributes, flags))?;
        }
        Ok(this)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: it is initialised, and not used any more.
        unsafe { libc::posix_spawnattr_destroy(self.0.as_mut_ptr()) };
    }
}
