//! Whether arguments fit the schema of a tool.

use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::Value;

use crate::ids::ToolName;
use crate::tools::{Tool, ToolFailure, ToolsError};

/// How many misfits of one call are told.
const MAX_MISFITS: usize = 5;

/// How much of one misfit is told, in characters: it may quote what does not fit.
const MAX_MISFIT_CHARS: usize = 300;

/// Checks arguments against the schema of one tool. To compile a schema takes longer than most calls: one that comes from a
/// type is compiled when it is first needed, and any other at once, since it may be none.
#[derive(Debug)]
pub(crate) struct ArgumentCheck(OnceLock<Result<Validator, ToolsError>>);

impl ArgumentCheck {
    /// Takes the parameters of a tool. They describe an object, and refer to nothing outside of them.
    pub(crate) fn new(tool: &Tool) -> Result<Self, ToolsError> {
        check_describes_object(tool.name(), &tool.schema.parameters)?;
        let check = Self(OnceLock::new());
        if !tool.is_derived {
            check.validator(tool)?;
        }
        Ok(check)
    }

    fn validator(&self, tool: &Tool) -> Result<&Validator, ToolsError> {
        self.0.get_or_init(|| compile(tool.name(), &tool.schema.parameters)).as_ref().map_err(Clone::clone)
    }

    /// Says which places of the arguments do not fit, and how.
    pub(crate) fn check(&self, tool: &Tool, arguments: &Value) -> Result<(), ToolFailure> {
        let validator = self.validator(tool).map_err(|error| unfit(error.to_string()))?;
        if validator.is_valid(arguments) {
            return Ok(());
        }
        let misfits: Vec<String> = validator.iter_errors(arguments).take(MAX_MISFITS).map(|it| misfit(&it)).collect();
        Err(unfit(format!("the arguments of `{}` do not fit its schema: {}", tool.name(), misfits.join("; "))))
    }
}

fn check_describes_object(name: &ToolName, parameters: &Value) -> Result<(), ToolsError> {
    let why = match parameters {
        Value::Object(schema) if schema.get("type").is_none_or(|it| it == "object") => return Ok(()),
        Value::Object(schema) => format!("its type is {}", schema["type"]),
        other => format!("it is {}", kind_of(other)),
    };
    Err(ToolsError::BadSchema { name: name.clone(), why })
}

fn compile(name: &ToolName, parameters: &Value) -> Result<Validator, ToolsError> {
    jsonschema::validator_for(parameters)
        .map_err(|error| ToolsError::BadSchema { name: name.clone(), why: error.to_string() })
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
