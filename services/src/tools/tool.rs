//! A tool.

use std::sync::Arc;
use std::time::Duration;

use linn_bus::{BoxFuture, Contained, Fault, contain};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ids::ToolName;
use crate::model::{ContentBlock, ToolSchema};
use crate::session::ErrorInfo;
use crate::tools::ToolExecution;

/// A tool as it is registered.
#[derive(Clone)]
pub struct Tool {
    /// What the model learns of it.
    pub schema: ToolSchema,
    /// Whether it changes anything; what approval goes by.
    pub class: ToolClass,
    /// Whether calls of it may run beside others in one step.
    pub is_parallel: bool,
    /// How long a call may take, if a policy holds it to that.
    pub timeout: Option<Duration>,
    /// Whether it was contributed to take the place of another of its name.
    pub(crate) is_in_place: bool,
    /// What it does.
    pub(crate) body: Arc<dyn ToolBody>,
    /// Whether the schema was made from a type. Any other is compiled when the tool is registered, since it may be none; one
    /// of a type when it is first called.
    pub(crate) is_derived: bool,
}

/// Whether a tool changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolClass {
    /// It only looks.
    ReadOnly,
    /// It changes the world. What is not known to look only belongs here.
    Destructive,
}

/// What a tool does.
///
/// Dropping the future of a call ends it; `call.signal()` asks for that first.
pub trait ToolBody: Send + Sync + 'static {
    /// Runs a call. The arguments fit the tool's schema.
    fn execute<'a>(&'a self, call: &'a ToolExecution) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>>;

    /// What a call would do, for whoever is asked whether it may; it changes nothing.
    fn preview<'a>(&'a self, call: &'a ToolExecution) -> BoxFuture<'a, Option<ToolPreview>> {
        let _ = call;
        Box::pin(std::future::ready(None))
    }
}

/// What a call would do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolPreview {
    /// The change as a unified diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Files it would touch, relative to the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

/// What a call returns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// For the model.
    pub content: Vec<ContentBlock>,
    /// For front ends; the model never sees it.
    pub meta: Option<Value>,
    /// Whether what is told is a failure.
    pub is_error: bool,
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        vec![ContentBlock::Text { text }].into()
    }
}
impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}
impl From<Vec<ContentBlock>> for ToolOutput {
    fn from(content: Vec<ContentBlock>) -> Self {
        Self { content, ..Self::default() }
    }
}

impl ToolOutput {
    /// The same, with something for front ends.
    pub fn with_meta(mut self, meta: Value) -> Self {
        self.meta = Some(meta);
        self
    }

    /// The same, told as a failure.
    pub fn failed(mut self) -> Self {
        self.is_error = true;
        self
    }
}

/// Why a call failed: words for the model, and a stable code where there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    /// For the model.
    pub message: String,
    /// Kind of error and its stable code.
    pub info: Option<ErrorInfo>,
}

impl ToolFailure {
    /// A failure in words.
    pub fn msg(message: impl Into<String>) -> Self {
        Self { message: message.into(), info: None }
    }

    /// A failure with a stable code; `name` is the kind of error, such as `FsError`.
    pub fn coded(name: &str, code: &str, message: impl Into<String>) -> Self {
        Self { message: message.into(), info: Some(ErrorInfo { name: name.to_owned(), code: code.to_owned() }) }
    }
}

/// Code of a call whose tool panicked.
const PANICKED: &str = "TOOL_PANICKED";

impl ToolFailure {
    /// The panic of the tool, if it was one.
    pub(crate) fn as_panic(&self) -> Option<Fault> {
        let is_panic = self.info.as_ref().is_some_and(|it| it.code == PANICKED);
        is_panic.then(|| Fault::from_panic(&self.message))
    }
}

impl From<Fault> for ToolFailure {
    fn from(fault: Fault) -> Self {
        if fault.is_panic() {
            return Self::coded("Panic", PANICKED, fault.to_string());
        }
        let info = fault.code().map(|code| ErrorInfo { name: "Fault".to_owned(), code: code.to_owned() });
        Self { message: format!("{fault:#}"), info }
    }
}

impl Tool {
    /// A tool from an async function of its arguments, whose schema comes from their type. It counts as destructive until
    /// [`read_only`](Tool::read_only) says otherwise.
    ///
    /// ```
    /// use linn_services::tools::{Tool, ToolFailure};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Add {
    ///     /// First number.
    ///     a: i64,
    ///     /// Second number.
    ///     b: i64,
    /// }
    ///
    /// let tool = Tool::new("add", "Adds two numbers.", async |add: Add, _call| {
    ///     Ok::<_, ToolFailure>(format!("{}", add.a + add.b))
    /// })
    /// .read_only();
    /// assert_eq!(tool.schema.parameters["required"], serde_json::json!(["a", "b"]));
    /// ```
    pub fn new<A, F, Fut, T, E>(name: &str, description: &str, body: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(A, ToolExecution) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Into<ToolOutput>,
        E: Into<ToolFailure>,
    {
        let parameters = parameters_of::<A>();
        let body = Arc::new(Typed { body, arguments: std::marker::PhantomData::<fn(A)> });
        let schema = ToolSchema { name: name.into(), description: description.to_owned(), parameters };
        Self { is_derived: true, ..Self::from_body(schema, body) }
    }

    /// A tool from a schema and a body.
    ///
    /// What the body does and how it fails stays where this is called: it may be part of a library.
    pub fn from_body<B: ToolBody + ?Sized>(schema: ToolSchema, body: Arc<B>) -> Self {
        let body = Arc::new(ContainedBody(Contained::new(body)));
        Self {
            schema,
            class: ToolClass::Destructive,
            is_parallel: false,
            timeout: None,
            is_in_place: false,
            body,
            is_derived: false,
        }
    }

    /// The same, known to look only, and to run beside others.
    pub fn read_only(mut self) -> Self {
        self.class = ToolClass::ReadOnly;
        self.is_parallel = true;
        self
    }

    /// The same, beside others in a step.
    pub fn parallel(mut self) -> Self {
        self.is_parallel = true;
        self
    }

    /// The same, one call at a time in a step.
    pub fn sequential(mut self) -> Self {
        self.is_parallel = false;
        self
    }

    /// The same, with a time limit for each call.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Whether it was contributed to take the place of another of its name.
    pub fn is_in_place(&self) -> bool {
        self.is_in_place
    }

    /// What it does.
    pub fn body(&self) -> &Arc<dyn ToolBody> {
        &self.body
    }

    /// The same with another body.
    pub fn with_body<B: ToolBody + ?Sized>(self, body: Arc<B>) -> Self {
        Self { body: Self::from_body(self.schema.clone(), body).body, ..self }
    }

    /// Its name.
    pub fn name(&self) -> &ToolName {
        &self.schema.name
    }
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tool").field("name", self.name()).field("class", &self.class).finish_non_exhaustive()
    }
}

/// A body whose panics are failures, caught in code that is made where the body is.
struct ContainedBody<B: ?Sized>(Contained<Arc<B>>);

impl<B: ToolBody + ?Sized> ToolBody for ContainedBody<B> {
    fn execute<'a>(&'a self, call: &'a ToolExecution) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(contain(async move { self.0.execute(call).await }))
    }
    fn preview<'a>(&'a self, call: &'a ToolExecution) -> BoxFuture<'a, Option<ToolPreview>> {
        Box::pin(async move {
            let preview = contain(async move { Ok::<_, Fault>(self.0.preview(call).await) });
            preview.await.ok().flatten()
        })
    }
}

/// The schema of a tool's arguments.
fn parameters_of<A: JsonSchema>() -> Value {
    let mut schema = schemars::SchemaGenerator::new(schemars::generate::SchemaSettings::draft07().with(|it| {
        it.inline_subschemas = true;
        it.meta_schema = None;
    }))
    .into_root_schema_for::<A>();
    schema.remove("title");
    let mut parameters = schema.to_value();
    if parameters.get("type").is_none() {
        // `()` and the like: an object without anything in it.
        parameters = json!({ "type": "object", "properties": {} });
    }
    parameters
}

/// A tool body from a function of typed arguments.
struct Typed<A, F> {
    body: F,
    arguments: std::marker::PhantomData<fn(A)>,
}

impl<A, F, Fut, T, E> ToolBody for Typed<A, F>
where
    A: DeserializeOwned + Send + 'static,
    F: Fn(A, ToolExecution) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Into<ToolOutput>,
    E: Into<ToolFailure>,
{
    fn execute<'a>(&'a self, call: &'a ToolExecution) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        let arguments = match A::deserialize(&**call.arguments()) {
            Ok(arguments) => arguments,
            Err(error) => {
                let message = format!("the arguments of `{}` do not fit: {error}", call.name());
                return Box::pin(std::future::ready(Err(ToolFailure::coded(
                    "ArgumentError",
                    "INVALID_ARGUMENTS",
                    message,
                ))));
            }
        };
        let running = (self.body)(arguments, call.clone());
        Box::pin(async move { running.await.map(Into::into).map_err(Into::into) })
    }
}
