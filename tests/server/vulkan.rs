//! On a Vulkan device: two steps are under way, prompts stand beside answers, and nothing is built once a model is there.

use super::{all, ask, greedy, load, prompts, settings, All};
use crate::util::options;
use pumex::engine::{CacheType, Debug};
use pumex::server::ModelSettings;
use pumex_serve::engine::Generate;
use std::collections::HashMap;

/// Lines of a log of steps, by column.
fn lines(text: &str) -> Vec<HashMap<&str, f64>> {
    let mut all = text.lines().map(|line| line.split('\t'));
    let names: Vec<&str> = all.next().unwrap().collect();
    all.map(|line| names.iter().copied().zip(line.map(|value| value.parse().unwrap())).collect()).collect()
}

#[test]
fn answers_on_a_device_are_those_of_the_cpu_and_need_no_pipeline_that_is_not_built_ahead() {
    if !crate::util::has_device() {
        return;
    }
    let log = std::env::temp_dir().join(format!("pumex-steps-{}", std::process::id()));
    let _ = std::fs::remove_file(&log);
    let (slots, prompt_rows) = (3, 32);
    let usual = options(CacheType::F32);
    let engine = pumex::engine::Options {
        n_ctx: Some(256 * slots as u32),
        max_rows: prompt_rows as u32,
        debug: Debug { build_ahead: Some(true), ..usual.debug },
        ..usual
    };
    let model = load(ModelSettings { engine, prompt_rows, step_log: Some(log.clone()), ..settings(slots) });
    let truth = load(super::exact(1));
    let expected = |request: Generate| all(ask(&truth, request)).text().to_string();
    let long =
        "And it came to pass, when the people saw that the people were gathered together, that the king said unto \
                them, Wherefore have ye done this thing, and wherefore are ye come hither to the house of my father?";
    let first = ask(&model, greedy(long, 40));
    // The others come while the first goes on, each with a prompt of its own.
    let others: Vec<_> =
        prompts(4).into_iter().map(|p| (ask(&model, greedy(&format!("{p}, {long}"), 12)), p)).collect();
    assert_eq!(all(first).text(), expected(greedy(long, 40)));
    for (receiver, prompt) in others {
        let found: All = all(receiver);
        assert_eq!(found.text(), expected(greedy(&format!("{prompt}, {long}"), 12)), "{prompt}");
    }
    drop(model);
    let text = std::fs::read_to_string(&log).unwrap();
    let steps = lines(&text);
    let sum = |column: &str| steps.iter().map(|step| step[column]).sum::<f64>();
    assert!(steps.iter().any(|step| step["single"] > 0.0 && step["rows"] > step["single"]), "{text}");
    assert_eq!(sum("pipelines"), 0.0, "{text}");
    assert!(sum("recorded") < steps.len() as f64 && sum("device_us") > 0.0, "{text}");
    std::fs::remove_file(log).unwrap();
}
