//! What the bridge is started with.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::input::LineReader;
use crate::sink::Output;

/// What the bridge is started with. Clones share the streams.
#[derive(Clone)]
pub struct BridgeConfig {
    /// The folder the human works in, an absolute path.
    pub workspace: PathBuf,
    /// The file of the session to go on with, an absolute path; without one nothing is kept in a file of the front end's.
    pub session: Option<PathBuf>,
    /// Version of the program, as clients are told.
    pub version: String,
    /// The model that is asked before a front end has named one.
    pub model: Option<String>,
    pub(crate) streams: Arc<Streams>,
    handle: BridgeHandle,
}

/// Where commands come from and events go to. They outlive the plugin, so that another version of it can go on.
pub(crate) struct Streams {
    pub(crate) input: Mutex<LineReader>,
    pub(crate) output: Mutex<Output>,
}

/// Ends the bridge, and tells when it has ended.
#[derive(Debug, Clone, Default)]
pub struct BridgeHandle {
    pub(crate) stop: CancellationToken,
    pub(crate) ended: CancellationToken,
}

impl BridgeHandle {
    /// Has the bridge end as if its input had: what runs is cancelled, and everything is written.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Ready when the input has ended, or nobody reads the output any more, and everything was written that could be. The
    /// harness can be shut down then.
    ///
    /// Cancel safe.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

impl BridgeConfig {
    /// A bridge between these streams and the harness, with no session and no version told.
    pub fn new(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        workspace: impl Into<PathBuf>,
    ) -> Self {
        let (input, output) = (LineReader::new(Box::new(input)), Output::new(Box::new(output)));
        Self {
            workspace: workspace.into(),
            session: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model: None,
            streams: Arc::new(Streams { input: Mutex::new(input), output: Mutex::new(output) }),
            handle: BridgeHandle::default(),
        }
    }

    /// What ends the bridge, and tells when it has ended.
    pub fn handle(&self) -> BridgeHandle {
        self.handle.clone()
    }
}

impl std::fmt::Debug for BridgeConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BridgeConfig")
            .field("workspace", &self.workspace)
            .field("session", &self.session)
            .field("version", &self.version)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}
