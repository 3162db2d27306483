//! Fields that endpoints write in more than one shape.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A text that may also be `null`, a number, or a list of parts with texts. Borrowed from the input where it can be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lenient<'a>(pub Option<Cow<'a, str>>);

impl Lenient<'_> {
    /// The text, if there is one that is not empty.
    pub fn get(&self) -> Option<&str> {
        self.0.as_deref().filter(|it| !it.is_empty())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Lenient<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LenientVisitor).map(Self)
    }
}

struct LenientVisitor;

impl<'de> Visitor<'de> for LenientVisitor {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Borrowed(text)))
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(text.to_owned())))
    }
    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(text)))
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(number.to_string())))
    }
    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(number.to_string())))
    }
    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(number.to_string())))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let mut joined = String::new();
        while let Some(part) = parts.next_element::<Lenient<'de>>()? {
            joined.push_str(part.get().unwrap_or_default());
        }
        Ok(Some(Cow::Owned(joined)))
    }
    /// A part, such as `{"type": "text", "text": ".."}`.
    fn visit_map<A: MapAccess<'de>>(self, mut part: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = part.next_key::<Cow<'de, str>>()? {
            if matches!(&*key, "text" | "summary") && found.is_none() {
                found = part.next_value::<Lenient<'de>>()?.0;
            } else {
                part.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// A count that may also be `null`, a float or a text with a number in it. What is none of these counts as not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count(pub Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Lenient::deserialize(deserializer)?;
        Ok(Self(text.get().and_then(|it| number(it.trim()))))
    }
}

fn number(text: &str) -> Option<u64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let number = text.parse::<f64>().ok().filter(|it| it.is_finite() && *it >= 0.0)?;
    Some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_counts_are_read_in_any_shape() {
        let text = |json: &str| serde_json::from_str::<Lenient<'_>>(json).unwrap().0.map(Cow::into_owned);
        assert_eq!(text("\"a\\nb\"").as_deref(), Some("a\nb"));
        assert_eq!(text("null"), None);
        assert_eq!(text("[{\"type\":\"text\",\"text\":\"a\"},\"b\",{\"x\":[1]}]").as_deref(), Some("ab"));
        assert!(matches!(serde_json::from_str::<Lenient<'_>>("\"plain\"").unwrap().0, Some(Cow::Borrowed("plain"))));
        let count = |json: &str| serde_json::from_str::<Count>(json).unwrap().0;
        for (json, expected) in [
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("\"12\"", Some(12)),
            ("\"1.5e1\"", Some(15)),
            ("null", None),
            ("\"many\"", None),
            ("-3", None),
            ("{}", None),
            ("true", None),
        ] {
            assert_eq!(count(json), expected, "{json}");
        }
    }
}
