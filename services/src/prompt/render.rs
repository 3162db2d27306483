//! From an assembly to the system text: variables are put in, strictly.

use std::collections::BTreeMap;

use crate::prompt::{AssembledSection, PromptAssembly, PromptError};

impl PromptAssembly {
    /// The system text: the sections with their variables put in, empty ones left out, blank lines between. `None` if
    /// nothing is left.
    ///
    /// `{{name}}` is a variable. Two opening braces without two closing ones anywhere behind them are text; so is what was
    /// put in, whatever it holds.
    ///
    /// # Errors
    ///
    /// [`PromptError::Variable`] and [`PromptError::Malformed`].
    pub fn render(&self) -> Result<Option<String>, PromptError> {
        let mut texts = Vec::with_capacity(self.sections.len());
        for section in &self.sections {
            let text = put_in(section, &self.variables)?;
            if !text.trim().is_empty() {
                texts.push(text);
            }
        }
        Ok(Some(texts.join("\n\n")).filter(|it| !it.is_empty()))
    }
}

fn put_in(section: &AssembledSection, variables: &BTreeMap<String, Option<String>>) -> Result<String, PromptError> {
    let mut text = String::with_capacity(section.text.len());
    let mut rest = section.text.as_str();
    while let Some((before, behind)) = rest.split_once("{{") {
        let Some((name, after)) = behind.split_once("}}") else { break };
        if !is_variable(name) {
            return Err(PromptError::Malformed { section: section.name.clone(), found: format!("{{{{{name}}}}}") });
        }
        let missing = |why| PromptError::Variable { section: section.name.clone(), variable: name.to_owned(), why };
        let value = variables.get(name).ok_or_else(|| missing("does not exist"))?;
        text.push_str(before);
        text.push_str(value.as_deref().ok_or_else(|| missing("has no value here"))?);
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

/// Whether this is a name of a variable: `[a-z][a-z0-9_]*`.
pub(crate) fn is_variable(name: &str) -> bool {
    let mut letters = name.bytes();
    letters.next().is_some_and(|it| it.is_ascii_lowercase())
        && letters.all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_')
}
