//! The report as text.

use super::statistics::{LoadReport, Spread};
use super::Arrivals;

impl LoadReport {
    /// A few lines, and a table of times.
    pub fn table(&self) -> String {
        let ((done, good), (prompt, output)) = (self.counts(), self.tokens());
        let load = match self.load.arrivals {
            Arrivals::Users(1) => "1 user".to_string(),
            Arrivals::Users(users) => format!("{users} users"),
            Arrivals::Rate(rate) => format!("{rate} requests/s"),
        };
        let mut text = format!(
            "{}, {load}: {done} of {} requests in {:.2} s\n",
            self.load.url,
            self.samples.len(),
            self.wall.as_secs_f64()
        );
        let rate = |count| self.per_second(count);
        text.push_str(&format!(
            "{:.2} requests/s ({:.2} within the goals), {:.1} output tokens/s, {:.1} tokens/s\n",
            rate(done),
            rate(good),
            rate(output),
            rate(prompt + output)
        ));
        let each = |n: usize| n as f64 / done.max(1) as f64;
        text.push_str(&format!(
            "{:.1} prompt tokens and {:.1} output tokens a request\n\n",
            each(prompt),
            each(output)
        ));
        text.push_str("| ms                    |     mean |      p50 |      p90 |      p95 |      p99 |      max |\n");
        text.push_str("|-----------------------|---------:|---------:|---------:|---------:|---------:|---------:|\n");
        let rows = [
            ("time to first token", &self.first_token),
            ("time per output token", &self.per_token),
            ("time between pieces", &self.between),
            ("time of request", &self.whole),
        ];
        rows.iter().for_each(|(name, spread)| text.push_str(&row(name, spread)));
        for (error, count) in self.errors() {
            text.push_str(&format!("{count} failed: {error}\n"));
        }
        text
    }
}

fn row(name: &str, spread: &Spread) -> String {
    let numbers = [50.0, 90.0, 95.0, 99.0, 100.0].map(|p| format!(" {:>8.2} |", spread.percentile(p))).concat();
    format!("| {name:<21} | {:>8.2} |{numbers}\n", spread.mean())
}
