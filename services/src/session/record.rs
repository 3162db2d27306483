//! One line of a session log.

use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::session::Fact;

/// One entry of a session log: `{type, seq, time, data}`, and on the surface `surfaceOp` and `sourceEventSeqs`.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Number of the record, from 0 and without gaps.
    pub seq: u64,
    /// When it was logged, in milliseconds since 1970 UTC.
    pub time_ms: i64,
    /// What happened.
    pub fact: Fact,
    /// Its place on the surface; there for the surface kinds, and for them alone.
    pub surface: Option<RecordSurface>,
}

/// How a record changes the surface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordSurface {
    /// Where it goes.
    pub op: SurfaceOp,
    /// The records it was made of, if it was made of any.
    pub source_seqs: Option<Vec<u64>>,
}

/// Where a record goes on the surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurfaceOp {
    /// At the end.
    Append,
    /// In place of all from the record `start` to the record `end`, by their places and both included.
    Replace {
        /// Seq of the first record replaced.
        start: u64,
        /// Seq of the last record replaced.
        end: u64,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum TaggedOp {
    Replace { start: u64, end: u64 },
}

impl Serialize for SurfaceOp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Append => serializer.serialize_str("append"),
            Self::Replace { start, end } => TaggedOp::Replace { start, end }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SurfaceOp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Word(String),
            Tagged(TaggedOp),
        }
        match Either::deserialize(deserializer)? {
            Either::Word(word) if word == "append" => Ok(Self::Append),
            Either::Word(word) => Err(D::Error::custom(format!("`{word}` is no surface operation; `append` is"))),
            Either::Tagged(TaggedOp::Replace { start, end }) => Ok(Self::Replace { start, end }),
        }
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Data<'a>(&'a Fact);
        impl Serialize for Data<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.serialize_data(serializer)
            }
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.fact.kind())?;
        map.serialize_entry("seq", &self.seq)?;
        map.serialize_entry("time", &self.time_ms)?;
        map.serialize_entry("data", &Data(&self.fact))?;
        if let Some(surface) = &self.surface {
            map.serialize_entry("surfaceOp", &surface.op)?;
            if let Some(seqs) = &surface.source_seqs {
                map.serialize_entry("sourceEventSeqs", seqs)?;
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RecordVisitor)
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    Type,
    Seq,
    Time,
    Data,
    SurfaceOp,
    SourceEventSeqs,
    #[serde(other)]
    Unknown,
}

struct RecordVisitor;

/// The name of a kind; that of a known one needs no memory.
enum Kind {
    Known(&'static str),
    Other(String),
}

impl AsRef<str> for Kind {
    fn as_ref(&self) -> &str {
        match self {
            Self::Known(kind) => kind,
            Self::Other(kind) => kind,
        }
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KindVisitor;
        impl Visitor<'_> for KindVisitor {
            type Value = Kind;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a kind")
            }
            fn visit_str<E: serde::de::Error>(self, kind: &str) -> Result<Kind, E> {
                Ok(Fact::known_kind(kind).map_or_else(|| Kind::Other(kind.to_owned()), Kind::Known))
            }
        }
        deserializer.deserialize_str(KindVisitor)
    }
}

/// Reads the data of a kind that is known already, in one pass.
struct DataOf<'a>(&'a str);

impl<'de> serde::de::DeserializeSeed<'de> for DataOf<'_> {
    type Value = Fact;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Fact, D::Error> {
        Fact::deserialize_data(self.0, deserializer)
    }
}

impl<'de> Visitor<'de> for RecordVisitor {
    type Value = Record;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a record of a session log: an object with `type`, `seq`, `time` and `data`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Record, A::Error> {
        let mut kind: Option<Kind> = None;
        let (mut seq, mut time_ms, mut op, mut source_seqs) = (None, None, None, None);
        let (mut fact, mut early_data): (Option<Fact>, Option<Value>) = (None, None);
        while let Some(field) = map.next_key()? {
            match field {
                Field::Type => kind = Some(map.next_value()?),
                Field::Seq => seq = Some(map.next_value()?),
                Field::Time => time_ms = Some(map.next_value()?),
                Field::SurfaceOp => op = Some(map.next_value()?),
                Field::SourceEventSeqs => source_seqs = Some(map.next_value()?),
                Field::Data => match &kind {
                    Some(kind) => fact = Some(map.next_value_seed(DataOf(kind.as_ref()))?),
                    None => early_data = Some(map.next_value()?),
                },
                Field::Unknown => drop(map.next_value::<serde::de::IgnoredAny>()?),
            }
        }
        let kind = kind.ok_or_else(|| A::Error::missing_field("type"))?;
        let fact = match (fact, early_data) {
            (Some(fact), _) => fact,
            (None, Some(data)) => Fact::deserialize_data(kind.as_ref(), data).map_err(A::Error::custom)?,
            (None, None) => return Err(A::Error::missing_field("data")),
        };
        Ok(Record {
            seq: seq.ok_or_else(|| A::Error::missing_field("seq"))?,
            time_ms: time_ms.ok_or_else(|| A::Error::missing_field("time"))?,
            fact,
            surface: op.map(|op| RecordSurface { op, source_seqs }),
        })
    }
}
