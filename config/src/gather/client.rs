//! What existing clients and their users set: JSON files, then variables, then flags.

use std::path::{Path, PathBuf};

use crate::check::Form;
use crate::gather::{Arguments, Gathered, Trust, is_absent, read_text, variable};
use crate::key::{Declaration, Kind};
use crate::keys;
use crate::node::{Data, Node};
use crate::origin::Layer;
use crate::paths;
use crate::problem::Problem;
use crate::read_json;
use crate::sources::Sources;

pub(crate) fn read(sources: &Sources, arguments: &Arguments, gathered: &mut Gathered) {
    for (path, trust) in files(sources, arguments, &mut gathered.problems) {
        read_file(sources, &path, trust, gathered);
    }
    read_variables(sources, gathered);
    for (key, node) in &arguments.client {
        gathered.set(key, node, Layer::Client, Form::Client, Trust::Start);
    }
}

/// The files, lowest first.
fn files(sources: &Sources, arguments: &Arguments, problems: &mut Vec<Problem>) -> Vec<(PathBuf, Trust)> {
    if let Some(file) = &arguments.client_file {
        let path = sources.absolute(file);
        // Unlike the others, this one was asked for.
        if let Err(error) = sources.files.read(&path)
            && is_absent(&error)
        {
            problems.push(Problem::file("read", path, error));
            return Vec::new();
        }
        return vec![(path, Trust::User)];
    }
    let mut files = Vec::new();
    if let Some(home) = &sources.home {
        let folder = paths::client_folder(home);
        let admin = folder.join("catalyst-code.d");
        let mut dropped = sources.files.list(&admin).unwrap_or_else(|error| {
            if !is_absent(&error) {
                problems.push(Problem::file("list", &admin, error));
            }
            Vec::new()
        });
        dropped.retain(|it| it.extension().is_some_and(|it| it == "json"));
        dropped.sort();
        files.push((folder.join("config.json"), Trust::User));
        files.extend(dropped.into_iter().map(|it| (it, Trust::User)));
        files.push((folder.join("settings.json"), Trust::User));
    }
    files.push((sources.folder.join("settings.json"), Trust::Repository));
    files.push((sources.folder.join("settings.local.json"), Trust::Repository));
    files
}

fn read_file(sources: &Sources, path: &Path, trust: Trust, gathered: &mut Gathered) {
    let Some(text) = read_text(&*sources.files, path, &mut gathered.problems) else {
        return;
    };
    let node = match read_json::read(path, &text) {
        Ok(node) => node,
        Err(problem) => return gathered.problems.push(problem),
    };
    if !matches!(node.data, Data::Table(_)) {
        let message = format!("the file is {} and has to be a table", node.form());
        return gathered.problems.push(Problem::Syntax { place: node.place, message });
    }
    for key in keys::all() {
        if let Some(said) = said_of(key, &node) {
            gathered.set(key, &said, Layer::Client, Form::Client, trust);
        }
    }
}

/// What a file says of a key under all the names that it has there.
fn said_of(key: &Declaration, file: &Node) -> Option<Node> {
    let found =
        key.client.keys.iter().filter_map(|path| file.at_path(path)).filter(|it| !matches!(it.data, Data::Null));
    found.cloned().reduce(|first, last| match (key.kind, first.data, last.data) {
        // Rules that are written under two names are all meant.
        (Kind::List | Kind::Rules, Data::List(mut items), Data::List(more)) => {
            items.extend(more);
            Node { data: Data::List(items), place: first.place }
        }
        (_, _, data) => Node { data, place: last.place },
    })
}

fn read_variables(sources: &Sources, gathered: &mut Gathered) {
    for key in keys::all() {
        let Some(name) = key.client.variable else {
            continue;
        };
        let Some(text) = sources.variables.get(name) else {
            continue;
        };
        let place = variable(name);
        let node = match (key.kind, text) {
            // This one is on by being there.
            (Kind::Bool, "") if key.name == keys::DEBUG_ENABLED.declaration.name => Node::text("true", place),
            (_, "") => continue,
            (Kind::Providers, _) => match read_json::read_at(&place, text) {
                Ok(node) => node,
                Err(problem) => {
                    gathered.problems.push(problem);
                    continue;
                }
            },
            _ => Node::text(text, place),
        };
        gathered.set(key, &node, Layer::Client, Form::Client, Trust::Start);
    }
}
