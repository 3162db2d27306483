//! Whether arguments fit the schema of a tool.

use jsonschema::Validator;
use serde_json::Value;

use crate::ids::ToolName;
use crate::tools::{ToolFailure, ToolsError};

/// How many misfits of one call are told.
const MAX_MISFITS: usize = 5;

/// How much of one misfit is told, in characters: it may quote what does not fit.
const MAX_MISFIT_CHARS: usize = 300;

/// A schema that is ready to check arguments.
#[derive(Debug)]
pub(crate) struct ArgumentCheck(Validator);

impl ArgumentCheck {
    /// Compiles the parameters of a tool. They describe an object, and refer to nothing outside of them.
    pub(crate) fn new(name: &ToolName, parameters: &Value) -> Result<Self, ToolsError> {
        let bad = |why: String| ToolsError::BadSchema { name: name.clone(), why };
        match parameters {
            Value::Object(schema) if schema.get("type").is_none_or(|it| it == "object") => {}
            Value::Object(schema) => return Err(bad(format!("its type is {}", schema["type"]))),
            other => return Err(bad(format!("it is {}", kind_of(other)))),
        }
        jsonschema::validator_for(parameters).map(Self).map_err(|error| bad(error.to_string()))
    }

    /// Says which places of the arguments do not fit, and how.
    pub(crate) fn check(&self, name: &ToolName, arguments: &Value) -> Result<(), ToolFailure> {
        if self.0.is_valid(arguments) {
            return Ok(());
        }
        let misfits: Vec<String> = self.0.iter_errors(arguments).take(MAX_MISFITS).map(|it| misfit(&it)).collect();
        Err(unfit(format!("the arguments of `{name}` do not fit its schema: {}", misfits.join("; "))))
    }
}

fn misfit(error: &jsonschema::ValidationError<'_>) -> String {
    let (path, what) = (error.instance_path().to_string(), error.to_string());
    let cut = what.char_indices().nth(MAX_MISFIT_CHARS).map(|(at, _)| at);
    let what = cut.map_or_else(|| what.clone(), |at| format!("{}…", &what[..at]));
    if path.is_empty() { what } else { format!("at `{path}`: {what}") }
}

/// A call fails because of its arguments.
pub(crate) fn unfit(message: String) -> ToolFailure {
    ToolFailure::coded("ArgumentError", "INVALID_ARGUMENTS", message)
}

/// Arguments are an object. The agent loop hands over as text what it could not read as JSON.
pub(crate) fn check_is_object(name: &ToolName, arguments: &Value) -> Result<(), ToolFailure> {
    let text = match arguments {
        Value::Object(_) => return Ok(()),
        Value::String(text) => text,
        other => {
            let found = kind_of(other);
            return Err(unfit(format!("the arguments of `{name}` have to be a JSON object, and they are {found}")));
        }
    };
    Err(unfit(match serde_json::from_str::<Value>(text) {
        Ok(_) => format!(
            "the arguments of `{name}` have to be a JSON object, and they are a string that holds JSON; \
             give the object itself"
        ),
        Err(error) if error.is_eof() && !text.trim().is_empty() => format!(
            "the arguments of `{name}` have to be a JSON object, and they are cut off: what arrived ends after {} \
             characters in the middle of a value. Nothing was run; call again with complete arguments, in smaller pieces \
             if they are long",
            text.chars().count()
        ),
        Err(error) => {
            format!("the arguments of `{name}` have to be a JSON object, and they are text that is no JSON: {error}")
        }
    }))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
