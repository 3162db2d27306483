//! Reading objects that name their kind in a field, in one pass.
//!
//! What serde derives for such enums keeps the whole object in a buffer first, and a session log is made of them. Here the
//! object is read as it comes, provided that the kind is its first field, as it is in all that Linn writes.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, IntoDeserializer, MapAccess, Unexpected,
    VariantAccess, Visitor,
};
use serde_json::{Map, Value};

/// An enum of objects that name their kind in the field [`TAG`](Tagged::TAG).
pub(super) trait Tagged: Sized {
    /// The field.
    const TAG: &'static str;
    /// What the object is, for errors.
    const WHAT: &'static str;
    /// The kinds that are known.
    const KINDS: &'static [&'static str];

    /// Reads one of a known kind; its deserializer gives the kind as the variant, and the other fields as what is in it.
    fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;

    /// One of another kind, whole, or none if there are no others.
    fn other(object: Value) -> Option<Self>;
}

/// Reads an object.
pub(super) fn deserialize<'de, T: Tagged, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_map(TaggedVisitor(PhantomData))
}

struct TaggedVisitor<T>(PhantomData<T>);

impl<'de, T: Tagged> Visitor<'de> for TaggedVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: an object with a `{}`", T::WHAT, T::TAG)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let Some(first) = map.next_key_seed(Text)? else { return Err(A::Error::missing_field(T::TAG)) };
        if first == T::TAG {
            let kind = map.next_value_seed(Text)?;
            if T::KINDS.contains(&&*kind) {
                return T::known(Parts { kind: &kind, fields: MapAccessDeserializer::new(map) });
            }
            let mut object = rest(map)?;
            object.insert(first.into_owned(), Value::String(kind.into_owned()));
            return of_other(object);
        }
        let value: Value = map.next_value()?;
        let mut object = rest(map)?;
        object.entry(first.into_owned()).or_insert(value);
        let kind = match object.remove(T::TAG) {
            Some(Value::String(kind)) => kind,
            Some(_) => return Err(A::Error::custom(format_args!("the `{}` of {} is a text", T::TAG, T::WHAT))),
            None => return Err(A::Error::missing_field(T::TAG)),
        };
        if T::KINDS.contains(&kind.as_str()) {
            return T::known(Parts { kind: &kind, fields: Value::Object(object) }).map_err(A::Error::custom);
        }
        object.insert(T::TAG.to_owned(), Value::String(kind));
        of_other(object)
    }
}

fn rest<'de, A: MapAccess<'de>>(mut map: A) -> Result<Map<String, Value>, A::Error> {
    let mut object = Map::new();
    while let Some((key, value)) = map.next_entry()? {
        object.insert(key, value);
    }
    Ok(object)
}

fn of_other<T: Tagged, E: Error>(object: Map<String, Value>) -> Result<T, E> {
    let kind = object.get(T::TAG).and_then(Value::as_str).unwrap_or_default().to_owned();
    T::other(Value::Object(object)).ok_or_else(|| E::unknown_variant(&kind, T::KINDS))
}

/// A text, lent where it can be.
struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Cow<'de, str>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
    fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text))
    }
}

/// A kind, and the fields beside it, as an enum of serde.
struct Parts<'a, D> {
    kind: &'a str,
    fields: D,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Parts<'_, D> {
    type Error = D::Error;
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        visitor.visit_enum(self)
    }
    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, D: Deserializer<'de>> EnumAccess<'de> for Parts<'_, D> {
    type Error = D::Error;
    type Variant = Fields<D>;
    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Fields<D>), D::Error> {
        let kind: StrDeserializer<'_, D::Error> = self.kind.into_deserializer();
        Ok((seed.deserialize(kind)?, Fields(self.fields)))
    }
}

struct Fields<D>(D);

impl<'de, D: Deserializer<'de>> VariantAccess<'de> for Fields<D> {
    type Error = D::Error;
    fn unit_variant(self) -> Result<(), D::Error> {
        self.0.deserialize_ignored_any(IgnoredAny).map(drop)
    }
    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, D::Error> {
        seed.deserialize(self.0)
    }
    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, D::Error> {
        Err(D::Error::invalid_type(Unexpected::Map, &"fields without names"))
    }
    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }
}
