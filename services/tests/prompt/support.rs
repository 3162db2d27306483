//! What the tests of the prompt share.

use linn_bus::{Root, ScopeKey, Svc};
use linn_services::model::ToolSchema;
use linn_services::prompt::{
    AssembleContext, PromptAssembly, PromptError, SystemPrompt, SystemPromptConfig, SystemPromptPlugin, ToolSource,
    Variable,
};
use serde_json::json;

/// A prompt without sections of its own.
pub(crate) fn bare() -> SystemPromptConfig {
    SystemPromptConfig { identity: String::new(), ..SystemPromptConfig::default() }
}

pub(crate) async fn prompt_with(root: &Root, config: SystemPromptConfig) -> Svc<dyn SystemPrompt> {
    root.mount::<SystemPromptPlugin>(config).unwrap().running().await.unwrap();
    root.get::<dyn SystemPrompt>().unwrap()
}

pub(crate) async fn prompt(root: &Root) -> Svc<dyn SystemPrompt> {
    prompt_with(root, bare()).await
}

pub(crate) fn of_scope(key: &ScopeKey) -> AssembleContext {
    let mut context = AssembleContext::default();
    context.scope = Some(key.clone());
    context
}

/// The text of a prompt, for all or for a scope.
pub(crate) async fn text(prompt: &Svc<dyn SystemPrompt>, scope: Option<&ScopeKey>) -> Result<String, PromptError> {
    let context = scope.map(of_scope).unwrap_or_default();
    let assembly = prompt.assemble(context).await?;
    Ok(prompt.render(&assembly)?.unwrap_or_default())
}

pub(crate) async fn assembly(prompt: &Svc<dyn SystemPrompt>) -> PromptAssembly {
    prompt.assemble(AssembleContext::default()).await.unwrap()
}

pub(crate) fn section_names(assembly: &PromptAssembly) -> Vec<&str> {
    assembly.sections.iter().map(|it| it.name.as_str()).collect()
}

pub(crate) fn tool_names(assembly: &PromptAssembly) -> Vec<&str> {
    assembly.tools.iter().map(|it| it.name.as_str()).collect()
}

pub(crate) fn tool(name: &str, description: &str) -> ToolSchema {
    let parameters = json!({"type": "object", "properties": {}});
    ToolSchema { name: name.into(), description: description.to_owned(), parameters }
}

pub(crate) fn tools(names: &'static [&'static str]) -> ToolSource {
    ToolSource::new(move |_| names.iter().map(|it| tool(it, "")).collect())
}

pub(crate) fn value(value: &'static str) -> Variable {
    Variable::new(move |_| Some(value.to_owned()))
}
