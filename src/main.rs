//! The `pumex` program: llama.cpp's habits on the command line, results on stdout, everything else on stderr.
//!
//! Exit codes: 0 done, 1 failed, 2 bad usage, 130 stopped by Ctrl-C.

use std::process::ExitCode;

fn main() -> ExitCode {
    pumex_cli::main()
}
