//! The server.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::io::BufReader;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::answer::Answer;
use crate::http::{Request, read_request, write_answer};

/// What a `GET` is told where nothing else was said.
const MODELS: &str =
    r#"{"mock-model":{"display_name":"Mock","capabilities":{"context_window":8192,"recommended_max_tokens":1024}}}"#;

/// A model server on loopback, on a thread of its own. Dropping it closes the port and all connections, and waits for that.
///
/// What it can be waited for are futures of no runtime; a test that has none uses `futures::executor::block_on`.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    n_requests: watch::Sender<usize>,
    n_closed: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct State {
    script: VecDeque<Answer>,
    otherwise: Option<Answer>,
    requests: Vec<Request>,
    gets: HashMap<String, Answer>,
    got: Vec<Request>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a request, which is noted.
    fn answer(&self, request: Request) -> Answer {
        let mut state = self.state();
        if request.method == "GET" {
            let path = request.path.split('?').next().unwrap_or_default();
            let answer = state.gets.get(path).or_else(|| state.gets.get("*")).cloned();
            state.got.push(request);
            return answer.unwrap_or_else(|| json(MODELS));
        }
        state.requests.push(request);
        let answer = state.script.pop_front().or_else(|| state.otherwise.clone());
        drop(state);
        self.n_requests.send_modify(|it| *it += 1);
        answer.unwrap_or_else(|| {
            Answer::status("400 Bad Request", r#"{"error":{"message":"the script has no answer left"}}"#)
        })
    }
}

fn json(text: &str) -> Answer {
    Answer::status("200 OK", text).header("content-type", "application/json")
}

impl ModelServer {
    /// Starts a server on a free port.
    ///
    /// # Errors
    ///
    /// Those of the system.
    #[expect(clippy::disallowed_methods, reason = "it is waited for when the server is dropped")]
    pub fn start(script: impl IntoIterator<Item = Answer>) -> io::Result<Self> {
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let state = Mutex::new(State { script: script.into_iter().collect(), ..State::default() });
        let shared = Arc::new(Shared { state, n_requests: watch::Sender::new(0), n_closed: watch::Sender::new(0) });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let stop = CancellationToken::new();
        let (served, stopped) = (shared.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("model-server".to_owned()).spawn(move || {
            runtime.block_on(stopped.run_until_cancelled(accept(listener, served)));
        })?;
        Ok(Self { address, shared, stop, thread: Some(thread) })
    }

    /// Where the paths of a wire begin.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Adds an answer at the end of the script.
    pub fn push(&self, answer: Answer) {
        self.shared.state().script.push_back(answer);
    }

    /// What a `POST` is answered when the script is at its end; by default an error that says so.
    pub fn otherwise(&self, answer: Answer) {
        self.shared.state().otherwise = Some(answer);
    }

    /// What a `GET` of `path`, such as `/v1/models/info`, is answered; `*` stands for every other path.
    pub fn on_get(&self, path: &str, answer: Answer) {
        self.shared.state().gets.insert(path.to_owned(), answer);
    }

    /// The `POST` requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.state().requests.clone()
    }

    /// The `GET` requests so far.
    pub fn gets(&self) -> Vec<Request> {
        self.shared.state().got.clone()
    }

    /// How many answers of the script are left.
    pub fn n_left(&self) -> usize {
        self.shared.state().script.len()
    }

    /// Waits until there were this many `POST` requests.
    pub async fn asked(&self, n_requests: usize) {
        // The sender lives as long as the server does.
        let _ = self.shared.n_requests.subscribe().wait_for(|it| *it >= n_requests).await;
    }

    /// Waits until this many connections were closed, by whichever side.
    pub async fn closed(&self, n_connections: usize) {
        let _ = self.shared.n_closed.subscribe().wait_for(|it| *it >= n_connections).await;
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic of the server was shown on its thread.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: StdListener, shared: Arc<Shared>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let mut connections = JoinSet::new();
    while let Ok((connection, _)) = listener.accept().await {
        let shared = shared.clone();
        connections.spawn(async move {
            // A client that goes away is what many a test wants.
            let _ = serve(connection, &shared).await;
            shared.n_closed.send_modify(|it| *it += 1);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(connection: TcpStream, shared: &Shared) -> io::Result<()> {
    // Pieces are to come as pieces, not when the system finds it worth while.
    connection.set_nodelay(true)?;
    let mut connection = BufReader::new(connection);
    let request = read_request(&mut connection).await?;
    let answer = shared.answer(request);
    write_answer(&mut connection, answer).await
}
