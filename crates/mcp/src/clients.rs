//! `--print-config`: the snippet that makes a client start this server. Facts about the clients, with their sources, are
//! in `docs/clients/`. Starts nothing and writes no file.

use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use crate::config::{Client, Config, ConfigError, Source};
use crate::programs::{lasts, own_path};

/// What to print.
#[derive(Debug)]
pub struct Snippet {
    /// The part of the client's file, for stdout.
    pub text: String,
    /// Where it goes, a command that does the same, and what may go wrong: for stderr.
    pub hints: Vec<String>,
}

/// The snippet for one client, with absolute paths and every setting in a flag, since clients drop variables.
///
/// # Errors
/// A path or a word is not UTF-8, so that no client's file can hold it.
pub fn snippet(client: Client, config: &Config) -> Result<Snippet, ConfigError> {
    let binary = own_path();
    let mut words = vec![text(binary.as_os_str())?, "--cwd".into(), text(config.cwd.as_os_str())?];
    let limit = config.limit.as_ref().map_or(0, Duration::as_secs);
    if config.limit_source != Source::Default {
        words.extend(["--timeout-secs".into(), limit.to_string()]);
    }
    words.extend(config.allow_outside_paths.then(|| "--allow-outside-paths".into()));
    words.push("--".into());
    for word in std::iter::once(&config.program).chain(&config.words) {
        words.push(text(word)?);
    }
    let command = client.command(&words, limit).map(|command| format!("; or run:\n{command}")).unwrap_or_default();
    let mut hints = vec![format!("this goes into {}{command}", client.place())];
    hints.extend((client == Client::Codex).then(|| "the command leaves Codex's time-out as it is".into()));
    hints.extend(warnings(&binary, &words, config));
    let text = if client == Client::Codex { toml(client, &words, limit) } else { json(client, &words, limit) };
    Ok(Snippet { text, hints })
}

impl Client {
    fn place(self) -> &'static str {
        match self {
            Self::ClaudeCode => "`.mcp.json` at the root of the project",
            Self::ClaudeDesktop => "`claude_desktop_config.json`: Settings, Developer, Edit Config",
            Self::Cursor => "`.cursor/mcp.json` in the project, or `~/.cursor/mcp.json`",
            Self::Vscode => "`.vscode/mcp.json` in the workspace",
            Self::Codex => "`~/.codex/config.toml`",
            Self::Gemini => "`.gemini/settings.json` in the project, or `~/.gemini/settings.json`",
            Self::Zed => "Zed's settings file (zed: open settings file)",
            Self::Generic => "a client that takes `mcpServers`",
        }
    }

    /// The member that holds the servers, and whether an entry names its transport.
    fn shape(self) -> (&'static str, bool) {
        match self {
            Self::ClaudeCode | Self::Cursor => ("mcpServers", true),
            Self::ClaudeDesktop | Self::Gemini | Self::Generic => ("mcpServers", false),
            Self::Vscode => ("servers", true),
            Self::Codex => ("mcp_servers", false),
            Self::Zed => ("context_servers", false),
        }
    }

    /// The client's limit for a call, where its own would come before the server's; without a limit here, a day.
    fn timeout(self, limit: u64) -> Option<(&'static str, u64)> {
        let longer = if limit == 0 { 86_400 } else { limit.saturating_add(30) };
        match self {
            Self::Codex => Some(("tool_timeout_sec", longer)),
            Self::Gemini => Some(("timeout", longer.saturating_mul(1000))),
            // Zed takes no more than 600.
            Self::Zed => Some(("timeout", longer.min(600))),
            _ => None,
        }
    }

    /// The client's own command that adds the server.
    fn command(self, words: &[String], limit: u64) -> Option<String> {
        let shell = |words: &[String]| words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
        match self {
            Self::ClaudeCode => Some(format!("claude mcp add fz -- {}", shell(words))),
            Self::Codex => Some(format!("codex mcp add fz -- {}", shell(words))),
            Self::Gemini => {
                let (binary, rest) = words.split_first()?;
                let (_, timeout) = self.timeout(limit)?;
                // The first -- is Gemini's: without it, it would take the one that ends the server's flags.
                let binary = shell_word(binary);
                Some(format!("gemini mcp add -s user --timeout {timeout} fz {binary} -- {}", shell(rest)))
            }
            Self::Vscode => {
                let (command, args) = words.split_first()?;
                let entry = serde_json::json!({"name": "fz", "type": "stdio", "command": command, "args": args});
                Some(format!("code --add-mcp {}", shell_word(&entry.to_string())))
            }
            _ => None,
        }
    }
}

fn json(client: Client, words: &[String], limit: u64) -> String {
    let (key, typed) = client.shape();
    let mut members = Vec::new();
    members.extend(typed.then(|| r#""type": "stdio""#.to_owned()));
    if let Some((command, args)) = words.split_first() {
        members.push(format!(r#""command": {}"#, quoted(command)));
        members.push(format!(r#""args": {}"#, list(args)));
    }
    members.extend(client.timeout(limit).map(|(name, value)| format!(r#""{name}": {value}"#)));
    let members = members.join(",\n      ");
    format!("{{\n  \"{key}\": {{\n    \"fz\": {{\n      {members}\n    }}\n  }}\n}}\n")
}

fn toml(client: Client, words: &[String], limit: u64) -> String {
    let (key, _) = client.shape();
    let mut lines = vec![format!("[{key}.fz]")];
    if let Some((command, args)) = words.split_first() {
        lines.push(format!("command = {}", quoted(command)));
        lines.push(format!("args = {}", list(args)));
    }
    lines.extend(client.timeout(limit).map(|(name, value)| format!("{name} = {value}")));
    // Codex passes on a short list of variables, and cargo finds its toolchain and its crates by these.
    let passed = ["CARGO_HOME", "RUSTUP_HOME"].into_iter().filter(|name| env::var_os(name).is_some());
    let passed: Vec<_> = passed.map(String::from).collect();
    lines.extend((!passed.is_empty()).then(|| format!("env_vars = {}", list(&passed))));
    lines.join("\n") + "\n"
}

fn list(words: &[String]) -> String {
    format!("[{}]", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", "))
}

/// A string in JSON and in TOML, whose basic strings are JSON's but for a raw DEL.
fn quoted(word: &str) -> String {
    serde_json::Value::from(word).to_string().replace('\u{7f}', "\\u007f")
}

/// A word for a POSIX shell.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

fn text(word: &OsStr) -> Result<String, ConfigError> {
    let refused = || format!("{} is not UTF-8, and a client's configuration cannot hold it", word.to_string_lossy());
    word.to_str().map(String::from).ok_or_else(|| ConfigError(refused()))
}

fn warnings(binary: &Path, words: &[String], config: &Config) -> Vec<String> {
    let mut told = Vec::new();
    if !lasts(binary) {
        let shown = binary.display();
        told.push(format!("warning: {shown} goes away with an upgrade; install fz-mcp and call it by its name"));
    }
    if !config.cwd.is_dir() {
        told.push(format!("warning: {} is no directory", config.cwd.display()));
    }
    let program = Path::new(&config.program);
    if program.is_absolute() && !program.is_file() {
        told.push(format!("warning: {} is not there yet: cargo build --release --bin fz", program.display()));
    } else if program.components().count() == 1 && !config.program.eq_ignore_ascii_case("cargo") {
        let shown = program.display();
        told.push(format!(
            "warning: {shown} is looked up on the client's PATH, which may be shorter: give its absolute path"
        ));
    }
    for word in words.iter().filter(|word| word.contains('$') || word.split(['/', '\\']).any(|part| part == "~")) {
        told.push(format!("warning: {word} holds ~ or $: this server does not expand it, and some clients do"));
    }
    told
}
