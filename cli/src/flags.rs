//! `pumex flags`: all flags of all commands, under each of their names, and those that have no effect.

use clap::CommandFactory;
use pumex_gguf::Result;
use serde_json::{json, Value};

use super::{argv, files, no_op_flags, output, Cli, CommandEnd};

/// Options of `flags`.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON array, with flags that the help does not show
    #[arg(long)]
    json: bool,
}

/// Prints them.
pub fn main(args: &Args) -> Result<CommandEnd> {
    let mut cli = Cli::command();
    cli.build();
    let mut all: Vec<Value> = Vec::new();
    for command in cli.get_subcommands().filter(|command| command.get_name() != "help") {
        files::assert_known(command);
        let listed = command.get_arguments().filter(|arg| arg.get_long().is_some() && arg.get_id() != "help");
        all.extend(listed.map(|arg| flag(command.get_name(), arg)));
    }
    if args.json {
        output::json(&all)?;
        return Ok(CommandEnd::Done);
    }
    let mut rows = vec![["command", "flag", "other names", "no effect"].map(String::from).to_vec()];
    let cell = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let shown = all.iter().filter(|flag| flag["hidden"] == false || flag["no_effect"].is_string());
    rows.extend(shown.map(|flag| {
        let names: Vec<&str> = flag["names"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let when = flag["only"].as_str().map_or(String::new(), |value| format!("{value}: "));
        let why = flag["no_effect"].as_str().map_or(String::new(), |why| when + why);
        vec![cell(&flag["command"]), cell(&flag["flag"]), names.join(" "), why]
    }));
    output::text(&output::table(&rows, &[false; 4]))?;
    Ok(CommandEnd::Done)
}

/// What there is to say of a flag.
fn flag(command: &str, arg: &clap::Arg) -> Value {
    let long = arg.get_long().unwrap_or_default();
    let dashed = format!("--{long}");
    let own = argv::own(command);
    // Of a name that a command has for something else, only that counts.
    let taken = |name: &str| own.iter().any(|(names, other, _)| *other != dashed && names.contains(&name));
    let rows = own.iter().chain(argv::COMMON).filter(|(_, other, _)| *other == dashed);
    let mut names: Vec<String> =
        rows.flat_map(|(names, ..)| names.iter()).filter(|name| !taken(name)).map(|name| name.to_string()).collect();
    names.extend(arg.get_short().map(|short| format!("-{short}")));
    names.extend(arg.get_all_aliases().into_iter().flatten().map(|alias| format!("--{alias}")));
    names.sort();
    names.dedup();
    let row = no_op_flags::of(command, long).next();
    json!({
        "command": command,
        "flag": dashed,
        "names": names,
        "takes_value": arg.get_action().takes_values(),
        "hidden": arg.is_hide_set(),
        "writes": files::writes(command, arg),
        "variable": arg.get_env().map(|name| name.to_string_lossy()),
        "no_effect": row.map(|row| row.why),
        "only": row.and_then(|row| row.value),
        "unless": row.and_then(|row| row.unless).map(|flag| format!("--{flag}")),
    })
}
