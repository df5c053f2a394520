//! A line for each step, for who looks for time that is lost: what the step was, and what host and device did meanwhile.

use pumex_gguf::file::append;
use pumex_gguf::{Error, Result};
use pumex_step::{Row, Runner};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Columns, with tabs between. Times are in microseconds, but the first; `host_us` and `wait_us` are all that went by since the line
/// before: at work, and waiting for the device. `device_us` is 0 on a CPU, whose step is part of `wait_us`.
const COLUMNS: &str =
    "at_ms\trows\tsingle\toutputs\trecorded\trecord_us\tpipelines\tstart_us\thost_us\twait_us\tdevice_us\tblocks_free";

/// What a step was when it started.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaunchLog {
    rows: usize,
    /// Rows that are alone of their sequence: answers that go on.
    single: usize,
    outputs: usize,
    /// Recordings and pipelines that were made for it.
    recorded: u64,
    record_us: f64,
    pipelines: u64,
    /// In [`Runner::start`].
    start: Duration,
}

/// The lines.
#[derive(Debug)]
pub struct StepLog {
    out: BufWriter<File>,
    begun: Instant,
    last: Instant,
    gpu_us: f64,
}

impl StepLog {
    /// Behind what a file holds.
    ///
    /// # Errors
    /// What the file system says.
    pub fn open(path: &Path, runner: &mut dyn Runner) -> Result<StepLog> {
        let mut out = BufWriter::new(append(path)?);
        writeln!(out, "{COLUMNS}").map_err(|e| Error::io(path, e))?;
        runner.time_steps(true);
        let now = Instant::now();
        Ok(StepLog { out, begun: now, last: now, gpu_us: runner.counters().gpu_us })
    }

    /// Starts a step by `start`, and says what it was. `single`: rows that are alone of their sequence.
    pub fn watch<T>(
        (runner, rows): (&mut dyn Runner, &[Row]),
        single: usize,
        start: impl FnOnce(&mut dyn Runner, &[Row]) -> T,
    ) -> (T, LaunchLog) {
        let (before, begun) = (runner.counters(), Instant::now());
        let started = start(runner, rows);
        let (start, after) = (begun.elapsed(), runner.counters());
        let launched = LaunchLog {
            rows: rows.len(),
            single,
            outputs: rows.iter().filter(|row| row.has_output()).count(),
            recorded: after.recordings - before.recordings,
            record_us: after.record_us - before.record_us,
            pipelines: after.pipelines - before.pipelines,
            start,
        };
        (started, launched)
    }

    /// The time until now is nobody's: there was nothing to do.
    pub fn idle(&mut self) {
        // What is written tells nobody else anything if it cannot be.
        let _ = self.out.flush();
        self.last = Instant::now();
    }

    /// Writes the line of a step that was read after a wait of so long.
    pub fn line(&mut self, step: &LaunchLog, wait: Duration, runner: &dyn Runner) {
        let now = Instant::now();
        let (host, gpu_us) = ((now - self.last).saturating_sub(wait), runner.counters().gpu_us);
        let device = gpu_us - self.gpu_us;
        (self.last, self.gpu_us) = (now, gpu_us);
        let (at, start, host, wait) =
            ((now - self.begun).as_millis(), step.start.as_micros(), host.as_micros(), wait.as_micros());
        let LaunchLog { rows, single, outputs, recorded, record_us, pipelines, .. } = step;
        let free = runner.free_blocks();
        let _ = writeln!(
            self.out,
            "{at}\t{rows}\t{single}\t{outputs}\t{recorded}\t{record_us:.0}\t{pipelines}\t{start}\t{host}\t{wait}\t{device:.0}\t{free}"
        );
    }
}
