//! Commands of a conversation: the table that `/help` prints, and their parser.

/// What a line that begins with `/` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The table.
    Help,
    /// Forget all but the system message.
    Clear,
    /// Another answer.
    Regen,
    /// Take the last turn back.
    Undo,
    /// Show or replace the system message.
    System(Option<String>),
    /// Write the conversation.
    Save(String),
    /// Read one.
    Load(String),
    /// Show settings or one of them, or change one.
    Set(Option<(String, Option<String>)>),
    /// Put a file's text before the next message.
    Read(String),
    /// Put a picture before the next message.
    Image(String),
    /// Put a sound before the next message.
    Audio(String),
    /// Show what the context holds.
    Tokens,
    /// Result of a call.
    Tool(String),
    /// Leave.
    Exit,
}

/// A command's names, what follows it, and what it does.
pub type ChatCommand = (&'static [&'static str], &'static str, &'static str);

/// All of them, as `/help` lists them.
pub const TABLE: &[ChatCommand] = &[
    (&["/help", "/?"], "", "show this list"),
    (&["/clear"], "", "forget the conversation, but for the system message"),
    (&["/regen"], "", "answer the last message once more"),
    (&["/undo"], "", "take back the last message and its answer"),
    (&["/system"], "[TEXT]", "set the system message, or show it; \"\" for none"),
    (&["/read"], "FILE", "put a file's text before the next message"),
    (&["/image"], "FILE", "put a picture before the next message"),
    (&["/audio"], "FILE", "put a sound before the next message"),
    (&["/save"], "FILE", "write the conversation to a file"),
    (&["/load"], "FILE", "go on with a conversation from a file"),
    (&["/set"], "[NAME [VALUE]]", "change a setting, or show them"),
    (&["/tokens"], "", "show how much of the context is used"),
    (&["/tool"], "RESULT", "give the result of a tool's call"),
    (&["/exit", "/bye", "/quit"], "", "leave; so does Ctrl-D"),
];

/// The first name of every command.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|entry| entry.0[0])
}

/// The table as text.
pub fn help() -> String {
    let mut out = String::new();
    for (names, args, what) in TABLE {
        let left = format!("{} {args}", names.join(", "));
        out.push_str(&format!("  {:<24} {what}\n", left.trim_end()));
    }
    out.push_str("A \\ at the end of a line goes on in the next one; \"\"\" begins and ends a text of many lines.\n");
    out.push_str("Ctrl-C stops an answer. A message that begins with / needs a space before it.\n");
    out
}

/// The command that a message is; none if it is none, and an error that says what is wrong with it.
pub fn parse(message: &str) -> Option<Result<Command, String>> {
    let text = message.trim_end();
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    // A path is not a command.
    if !name.starts_with('/') || name.len() < 2 || name[1..].contains('/') {
        return None;
    }
    let rest = rest.trim();
    let Some((names, args, _)) = TABLE.iter().find(|entry| entry.0.contains(&name)) else {
        let shown: String = name.chars().take(40).collect();
        return Some(Err(format!("no command {shown}: there are {}", names().collect::<Vec<_>>().join(" "))));
    };
    if args.is_empty() && !rest.is_empty() {
        return Some(Err(format!("{name} takes nothing behind it")));
    }
    if !args.is_empty() && !args.starts_with('[') && rest.is_empty() {
        return Some(Err(format!("expected {name} {args}")));
    }
    let some = || (!rest.is_empty()).then(|| rest.to_string());
    Some(Ok(match names[0] {
        "/help" => Command::Help,
        "/clear" => Command::Clear,
        "/regen" => Command::Regen,
        "/undo" => Command::Undo,
        "/system" => Command::System(some()),
        "/save" => Command::Save(rest.to_string()),
        "/load" => Command::Load(rest.to_string()),
        "/read" => Command::Read(rest.to_string()),
        "/image" => Command::Image(rest.to_string()),
        "/audio" => Command::Audio(rest.to_string()),
        "/tokens" => Command::Tokens,
        "/tool" => Command::Tool(rest.to_string()),
        "/set" => Command::Set(some().map(|text| match text.split_once(char::is_whitespace) {
            Some((name, value)) => (name.to_string(), Some(value.trim().to_string())),
            None => (text, None),
        })),
        _ => Command::Exit,
    }))
}
