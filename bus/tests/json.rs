//! Views of payloads and answers as JSON, and schemas: made when somebody looks, and never before.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use linn_bus::{Event, EventDescriptor, EventRef, InternalDispatch, event_catalogue, output_view};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// A payload that says itself what it is, with a schema.
#[derive(Event, Serialize, JsonSchema)]
#[event(name = "json/sent", mode = Emit, view, schema)]
struct Sent {
    /// Whom it goes to.
    to: String,
    size_bytes: u64,
}

/// A payload with a live handle, shown by a method.
#[derive(Event)]
#[event(name = "json/opened", mode = Bail, output = Verdict, view = Self::shown, output_view)]
struct Opened {
    handle: Arc<Mutex<u32>>,
    n_shown: AtomicU32,
}

impl Opened {
    fn shown(&self) -> Value {
        self.n_shown.fetch_add(1, Ordering::Relaxed);
        json!({ "handle": *self.handle.lock().unwrap() })
    }
}

#[derive(Serialize)]
struct Verdict {
    allowed: bool,
}

mod elsewhere {
    pub(crate) fn shown(_: &super::Elsewhere) -> serde_json::Value {
        serde_json::json!("elsewhere")
    }
}

/// Shown by a function of a module.
#[derive(Event)]
#[event(name = "json/elsewhere", mode = Emit, view = elsewhere::shown)]
struct Elsewhere;

#[derive(Event)]
#[event(name = "json/plain", mode = Emit)]
struct Plain;

/// JSON has no maps with such keys.
#[derive(Event, Serialize)]
#[event(name = "json/impossible", mode = Emit, view)]
struct Impossible(BTreeMap<(u8, u8), u8>);

struct Exploding;
impl Serialize for Exploding {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("not today")
    }
}

#[derive(Event, Serialize)]
#[event(name = "json/exploding", mode = Emit, view)]
struct Explodes(Exploding);

fn opened() -> Opened {
    Opened { handle: Arc::new(Mutex::new(7)), n_shown: AtomicU32::new(0) }
}

fn descriptor(name: &str) -> &'static EventDescriptor {
    event_catalogue().into_iter().find(|it| it.name == name).unwrap()
}

#[test]
fn a_payload_without_its_type_is_shown() {
    let sent = Sent { to: "Ada".into(), size_bytes: 3 };
    assert_eq!(EventRef::new(&sent).view().unwrap(), Some(json!({ "to": "Ada", "size_bytes": 3 })));
    assert_eq!(EventRef::new(&opened()).view().unwrap(), Some(json!({ "handle": 7 })));
    assert_eq!(EventRef::new(&Elsewhere).view().unwrap(), Some(json!("elsewhere")));
    assert_eq!(EventRef::new(&Plain).view().unwrap(), None);
}

#[test]
fn an_answer_is_shown() {
    assert_eq!(output_view::<Opened>(&Verdict { allowed: true }).unwrap(), Some(json!({ "allowed": true })));
}

#[test]
fn a_payload_without_its_type_is_of_one_type_only() {
    let sent = Sent { to: "Ada".into(), size_bytes: 3 };
    let any = EventRef::new(&sent);
    assert!(std::ptr::eq(any.payload::<Sent>().unwrap(), &sent));
    assert!(any.payload::<Plain>().is_none());
    assert_eq!(format!("{any:?}"), "EventRef(json/sent)");
}

#[test]
fn the_descriptor_says_what_can_be_shown() {
    let says = |name| {
        let it = descriptor(name);
        (it.has_view, it.has_output_view, it.has_schema)
    };
    assert_eq!(says("json/sent"), (true, false, true));
    assert_eq!(says("json/opened"), (true, true, false));
    assert_eq!(says("json/plain"), (false, false, false));
}

#[test]
fn the_schema_of_a_payload_is_that_of_its_type() {
    let schema = descriptor("json/sent").schema().unwrap();
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["properties"]["to"], json!({ "description": "Whom it goes to.", "type": "string" }));
    assert_eq!(schema["properties"]["size_bytes"]["minimum"], 0);
    assert_eq!(schema["required"], json!(["to", "size_bytes"]));
    assert_eq!(descriptor("json/plain").schema(), None);
    assert_eq!(descriptor("json/opened").schema(), None);
}

#[test]
fn an_observer_of_dispatches_gets_the_view() {
    linn_bus_test::run(async |root| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        root.on(move |it: &InternalDispatch| {
            log.lock().unwrap().push((it.event.name, it.view().unwrap(), it.event_ref().payload::<Sent>().is_some()));
        })
        .unwrap();
        root.emit(&Sent { to: "Ada".into(), size_bytes: 3 });
        root.emit(&Plain);
        let seen = seen.lock().unwrap();
        let expected = json!({ "to": "Ada", "size_bytes": 3 });
        assert_eq!(*seen, [("json/sent", Some(expected), true), ("json/plain", None, false)]);
    });
}

#[test]
fn nothing_is_shown_unless_somebody_looks() {
    linn_bus_test::run(async |root| {
        let opened = opened();
        root.on(|_: &Opened| Some(Verdict { allowed: true })).unwrap();
        root.on(|it: &InternalDispatch| assert!(it.event.has_view)).unwrap();
        assert!(root.bail(&opened).unwrap().unwrap().allowed);
        assert_eq!(opened.n_shown.load(Ordering::Relaxed), 0);
        EventRef::new(&opened).view().unwrap().unwrap();
        assert_eq!(opened.n_shown.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_view_that_fails_or_panics_is_an_error_of_whoever_looks() {
    linn_bus_test::run(async |root| {
        let codes = Arc::new(Mutex::new(Vec::new()));
        let log = codes.clone();
        root.on(move |it: &InternalDispatch| log.lock().unwrap().push(it.view().unwrap_err().code())).unwrap();
        root.emit(&Impossible([((1, 2), 3)].into()));
        root.emit(&Explodes(Exploding));
        assert_eq!(*codes.lock().unwrap(), ["VIEW_FAILED", "VIEW_PANICKED"]);
        let error = EventRef::new(&Explodes(Exploding)).view().unwrap_err();
        assert_eq!(error.to_string(), "the view of `json/exploding` panicked: not today");
        let error = EventRef::new(&Impossible([((1, 2), 3)].into())).view().unwrap_err();
        assert_eq!(error.to_string(), "`json/impossible` cannot be shown as JSON");
        assert!(std::error::Error::source(&error).is_some());
    });
}
