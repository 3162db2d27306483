//! Files that exist only as far as a path leads somewhere.

use linn_bus::provider;
use linn_services::fs::{
    Fs, FsEntry, FsError, FsFile, FsFind, FsFound, FsKind, FsMetadata, FsSearch, FsSearchResult, FsTarget,
    FsWriteIntent,
};
use linn_services::ids::FsVersion;

/// A workspace in which some paths lead elsewhere.
pub(crate) struct Links(pub(crate) &'static [(&'static str, &'static str)]);

fn nothing<T>(path: &str) -> Result<T, FsError> {
    Err(FsError::Outside { path: path.to_owned(), to: None })
}

#[provider]
impl Fs for Links {
    async fn resolve(&self, path: &str) -> Result<FsTarget, FsError> {
        let to = self.0.iter().find(|it| it.0 == path).map_or(path, |it| it.1);
        Ok(FsTarget { target_key: to.into(), display_path: to.to_owned() })
    }
    async fn read(&self, path: &str, _: u64) -> Result<FsFile, FsError> {
        nothing(path)
    }
    async fn write(&self, path: &str, _: &[u8], _: FsWriteIntent) -> Result<FsVersion, FsError> {
        nothing(path)
    }
    async fn list(&self, path: &str) -> Result<Vec<FsEntry>, FsError> {
        nothing(path)
    }
    async fn metadata(&self, path: &str) -> Result<Option<FsMetadata>, FsError> {
        nothing(path)
    }
    async fn create_folder(&self, path: &str) -> Result<(), FsError> {
        nothing(path)
    }
    async fn delete(&self, path: &str) -> Result<FsKind, FsError> {
        nothing(path)
    }
    async fn rename(&self, from: &str, _: &str) -> Result<(), FsError> {
        nothing(from)
    }
    async fn find(&self, _: FsFind) -> Result<FsFound, FsError> {
        nothing(".")
    }
    async fn search(&self, _: FsSearch) -> Result<FsSearchResult, FsError> {
        nothing(".")
    }
}
