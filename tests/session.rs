//! Sessions: forks, outputs of rows, steps that are refused, logits that are NaN, and megakernels that give up.

use crate::reference::greedy;
use crate::util::{assert_silent, demo_path, nmse, options, reference, rows, sample, vulkan};
use pumex::cpu::Reference;
use pumex::engine::{CacheType, Debug, Options, VulkanRunner};
use pumex::gguf::Gguf;
use pumex::sample::{Allowed, SampleRequest, SamplerOptions};
use pumex::step::{Row, RowOutput, Runner, Token, Want};
use std::sync::Arc;

fn ids(count: u32) -> Vec<u32> {
    (0..count).map(|i| (i * 97 + 5) % 4096).collect()
}

fn row(seq: u32, pos: u32, token: Token, output: RowOutput) -> Row {
    Row { seq, pos, token, output, medium: None }
}

fn request(options: SamplerOptions, unit: f64) -> RowOutput {
    RowOutput::Sample(SampleRequest { options: Arc::new(options), recent: vec![], unit, allowed: Allowed::All })
}

fn refusal_text(runner: &mut dyn Runner, rows: &[Row]) -> String {
    runner.start(rows).unwrap_err().to_string()
}

/// Both interpreters, or the reference alone where there is no device.
fn each(gguf: &Gguf, options: &Options, check: &dyn Fn(&mut dyn Runner)) {
    each_of(gguf, &pumex::model::plan(gguf).unwrap(), options, check);
}

fn each_of(gguf: &Gguf, plan: &pumex::plan::Plan, options: &Options, check: &dyn Fn(&mut dyn Runner)) {
    let mut truth = Reference::new(gguf, plan.clone(), 256, 4, 64);
    check(&mut truth);
    let Some(device) = crate::util::device(false) else { return };
    let mut runner = VulkanRunner::new(gguf, plan.clone(), device, options, &mut |_, _| ()).unwrap();
    check(&mut runner);
    assert_silent(&runner);
}

#[test]
fn runners_go_from_thread_to_thread() {
    fn assert_send<T: Send>() {}
    assert_send::<VulkanRunner>();
    assert_send::<Reference<'static>>();
    assert_send::<Box<dyn Runner>>();
}

#[test]
fn a_fork_goes_on_as_a_sequence_that_was_fed_the_same() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let (prompt, other) = (ids(45), [7, 300, 12]);
    for &cache in sample(&[CacheType::F16, CacheType::Q8_0], 1) {
        let way = Options { n_seqs: 4, ..options(cache) };
        each(&gguf, &way, &|runner| {
            // Fed for itself: 40 positions, in the same steps, and others after them.
            let mut step = |rows: &[Row]| runner.run(rows, Want::Logits).unwrap().logits;
            step(&rows(2, 0, &prompt));
            step(&rows(0, 0, &prompt));
            let vocab = step(&rows(0, 45, &[3])).len();
            runner.forget(2, 40);
            let truth = runner.run(&rows(2, 40, &other), Want::Logits).unwrap().logits;
            let free = runner.free_blocks();
            runner.fork(0, 1, 40).unwrap();
            assert_eq!(runner.free_blocks(), free, "nothing is copied yet");
            assert_eq!(runner.blocks_needed(&rows(1, 40, &other)), 1);
            let forked = runner.run(&rows(1, 40, &other), Want::Logits).unwrap().logits;
            assert!(forked == truth, "NMSE {:e}", nmse(&forked, &truth));
            assert_eq!(runner.free_blocks(), free - 1);
            // What the fork was taken of goes on as if there were none, beside the fork and its fork.
            runner.fork(0, 3, 46).unwrap();
            let three = [rows(3, 46, &[5]), rows(0, 46, &[5]), rows(1, 43, &[5])].concat();
            let together = runner.run(&three, Want::Logits).unwrap().logits;
            assert!(together[..vocab] == together[vocab..2 * vocab], "both hold the same");
            assert!(nmse(&together[..vocab], &together[2 * vocab..]) > 1e-3, "the other holds something else");
            assert!(runner.fork(0, 9, 1).is_err() && runner.fork(0, 1, 99).is_err());
        });
    }
}

#[test]
fn each_row_gives_what_it_asks_for_and_no_more() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let way = Options { n_seqs: 4, ..options(CacheType::F32) };
    let hot = SamplerOptions { temperature: 1.4, top_k: 30, ..Default::default() };
    let step = |outputs: [RowOutput; 6]| -> Vec<Row> {
        let seqs = [0, 1, 0, 2, 3, 0].into_iter().zip([0, 0, 1, 0, 0, 2]);
        let rows = seqs.zip(outputs).map(|((seq, pos), output)| row(seq, pos, Token::Id(40 + seq * 9 + pos), output));
        rows.collect()
    };
    each(&gguf, &way, &|runner| {
        let vocab = runner.n_vocab();
        let all = step([(); 6].map(|()| RowOutput::Logits));
        let all = runner.run(&all, Want::Logits).unwrap();
        (0..4).for_each(|seq| _ = runner.forget(seq, 0));
        let outputs = [
            RowOutput::None,
            request(hot.clone(), 0.7),
            RowOutput::Logits,
            RowOutput::Id,
            RowOutput::Logits,
            request(SamplerOptions { temperature: 0.0, banned: vec![all.ids[5]], ..Default::default() }, 0.0),
        ];
        let before = runner.counters();
        let mixed = step(outputs.clone());
        let ticket = runner.start(&mixed).unwrap();
        let found = runner.finish(ticket).unwrap();
        let read = runner.counters().bytes_from_device - before.bytes_from_device;
        assert!(read <= (2 * vocab + 6) as u64 * 4, "{read} bytes: logits of two rows, and ids");
        let logits = |i: usize| &all.logits[i * vocab..][..vocab];
        assert!(nmse(&found.logits[..vocab], logits(2)) < 1e-9 && nmse(&found.logits[vocab..], logits(4)) < 1e-9);
        let picked = |i: usize| match &outputs[i] {
            RowOutput::Sample(request) => request.pick(logits(i), None, &mut Vec::new()).unwrap(),
            _ => all.ids[i],
        };
        assert_eq!(found.ids, [1, 2, 3, 4, 5].map(picked));
        assert!(found.ids[4] != all.ids[5], "what is banned is not sampled");
        // Each sequence goes on with the id of its last output row.
        let next = [(0, 3), (1, 1), (2, 1), (3, 1)];
        let last = [found.ids[4], found.ids[0], found.ids[2], found.ids[3]];
        let go_on = |tokens: [Token; 4]| -> Vec<Row> {
            let rows = next.into_iter().zip(tokens);
            rows.map(|((seq, pos), token)| row(seq, pos, token, RowOutput::Logits)).collect()
        };
        let sampled = runner.run(&go_on([Token::Sampled; 4]), Want::Logits).unwrap();
        next.iter().for_each(|(seq, pos)| _ = runner.forget(*seq, *pos));
        assert_eq!(runner.run(&go_on(last.map(Token::Id)), Want::Logits).unwrap(), sampled);
    });
}

#[test]
fn a_sampled_token_takes_a_step_that_sampled() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    each(&gguf, &options(CacheType::F16), &|runner| {
        let next = |pos| [row(0, pos, Token::Sampled, RowOutput::Id)];
        let none = "sequence 0: expected an id that a step sampled, found none";
        assert_eq!(refusal_text(runner, &next(0)), none);
        let mut prompt = rows(0, 0, &[5, 6, 7]);
        prompt.iter_mut().for_each(|row| row.output = RowOutput::None);
        runner.run(&prompt, Want::Ids).unwrap();
        assert_eq!(refusal_text(runner, &next(3)), none);
        runner.run(&rows(0, 3, &[8]), Want::Ids).unwrap();
        runner.run(&next(4), Want::Ids).unwrap();
        runner.forget(0, 4);
        assert_eq!(refusal_text(runner, &next(4)), none);
        runner.forget(77, 0); // nothing to forget
    });
}

#[test]
fn a_step_that_is_refused_leaves_the_session_as_it_was() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let way = Options { n_seqs: 2, cache_positions: Some(96), ..options(CacheType::F32) };
    let Some(mut runner) = vulkan(&gguf, way) else { return };
    let prompt = ids(60);
    runner.run(&rows(0, 0, &prompt[..40]), Want::Ids).unwrap();
    let free = runner.free_blocks();
    assert_eq!(free, 1, "of three");
    // Rows of the first sequence would fit, those of the second do not.
    let both = [rows(0, 40, &prompt[40..]), rows(1, 0, &prompt[..33])].concat();
    assert_eq!(runner.blocks_needed(&both), 2);
    assert!(refusal_text(&mut runner, &both).contains("expected a free cache block, found none"));
    let gap = [rows(1, 0, &prompt[..3]), rows(0, 41, &prompt[..1])].concat();
    assert!(refusal_text(&mut runner, &gap).contains("position 41 of sequence 0: expected at most 40"));
    let twice = [rows(0, 40, &prompt[40..41]), rows(0, 40, &prompt[40..41])].concat();
    assert!(refusal_text(&mut runner, &twice).contains("expected position 41 after the last, found 40"));
    let impossible = SamplerOptions { top_k: 0, ..Default::default() };
    let top = [row(1, 0, Token::Id(1), request(impossible, 0.5))];
    assert!(refusal_text(&mut runner, &top).contains("top-k 0"));
    assert_eq!(runner.free_blocks(), free);
    let found = runner.run(&rows(0, 40, &prompt[40..]), Want::Logits).unwrap().logits;
    let mut truth = reference(&gguf);
    truth.run(&rows(0, 0, &prompt[..40]), Want::Ids).unwrap();
    let truth = truth.run(&rows(0, 40, &prompt[40..]), Want::Logits).unwrap().logits;
    assert!(nmse(&found, &truth) < 1e-9, "{:e}", nmse(&found, &truth));
    assert_silent(&runner);
}

/// Takes weights that are floats: products with others code the norm's rows as integers, in which there is no NaN.
#[test]
fn logits_that_are_nan_are_one_error_everywhere() {
    let gguf = pumex::synthetic::find("tiny").unwrap().model(pumex::quantize::recipe::find("F16").unwrap()).unwrap();
    let mut plan = pumex::model::plan(&gguf).unwrap();
    plan.ops.iter_mut().for_each(|op| {
        if let pumex::plan::Op::RmsNorm { eps, .. } = op {
            *eps = f32::NAN;
        }
    });
    each_of(&gguf, &plan, &options(CacheType::F32), &|runner| {
        let sampled = request(SamplerOptions::default(), 0.5);
        let banned = request(SamplerOptions { banned: (0..100).collect(), ..Default::default() }, 0.5);
        for output in [RowOutput::Id, RowOutput::Logits, sampled, banned] {
            runner.forget(0, 0);
            let first = [row(0, 0, Token::Id(5), RowOutput::None), row(0, 1, Token::Id(6), output.clone())];
            let first = runner.start(&first).unwrap();
            let ahead = runner.start(&[row(0, 2, Token::Sampled, output.clone())]).unwrap();
            let expected = |row| format!("logits of row {row}: expected finite numbers, found NaN");
            assert_eq!(runner.finish(first).unwrap_err().to_string(), expected(1), "{output:?}");
            let error = runner.finish(ahead).unwrap_err().to_string();
            assert!(error.contains("expected finite numbers, found NaN"), "{output:?}: {error}");
            let next = [row(0, 3, Token::Sampled, output)];
            assert!(refusal_text(runner, &next).contains("expected an id that a step sampled"));
        }
    });
}

/// Ids of `count` steps after a prompt, two in flight.
fn sample_ids(runner: &mut dyn Runner, count: u32) -> Vec<u32> {
    let options = SamplerOptions { repeat_penalty: 1.2, repeat_last_n: 16, ..Default::default() };
    let mut prompt = rows(0, 0, &[0, 589, 346]);
    prompt[..2].iter_mut().for_each(|row| row.output = RowOutput::None);
    prompt[2].output = request(options.clone(), 0.4);
    let mut pending = runner.start(&prompt).unwrap();
    let mut out = Vec::new();
    for i in 0..count {
        let unit = f64::from(i * 7 % 10) / 10.0;
        let next = runner.start(&[row(0, 3 + i, Token::Sampled, request(options.clone(), unit))]).unwrap();
        out.extend(runner.finish(pending).unwrap().ids);
        pending = next;
    }
    runner.finish(pending).unwrap();
    out
}

#[test]
fn steps_whose_megakernel_gives_up_are_done_again_without_it() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let run = |fault_at| {
        let debug = Debug { megakernel: Some(true), fault_at, ..Debug::default() };
        let mut runner = vulkan(&gguf, Options { debug, ..options(CacheType::F16) })?;
        if !runner.has_megakernel() {
            println!("skipped: {} has no megakernel", runner.device());
            return None;
        }
        let before = runner.counters().submits;
        let ids = greedy(&mut runner, &[0, 589, 346], 12);
        runner.forget(0, 0);
        let warm = sample_ids(&mut runner, 12);
        assert_silent(&runner);
        assert_eq!(runner.has_megakernel(), fault_at.is_none(), "it goes on without");
        Some((ids, warm, runner.counters().submits - before))
    };
    let Some(truth) = run(None) else { return };
    // A prompt, a greedy step, a sampled prompt, a sampled step, the last one with none after it.
    for fault_at in [0, 5, 13, 18, 25] {
        let found = run(Some(fault_at)).unwrap();
        assert_eq!((&found.0, &found.1), (&truth.0, &truth.1), "step {fault_at}");
        assert!(found.2 > truth.2, "step {fault_at}: steps are done again");
    }
    a_fork_of_a_step_that_is_done_again_is_copied_again();
}

/// The fork's blocks are copied from what the step wrote that is done again. By the pipelines of the test that calls it.
fn a_fork_of_a_step_that_is_done_again_is_copied_again() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let run = |fault_at| {
        let debug = Debug { megakernel: Some(true), fault_at, ..Debug::default() };
        let mut runner = vulkan(&gguf, Options { debug, ..options(CacheType::F16) })?;
        runner.run(&rows(0, 0, &ids(20)), Want::Ids).unwrap();
        let first = runner.start(&rows(0, 20, &[9])).unwrap();
        runner.fork(0, 1, 21).unwrap();
        let second = runner.start(&Want::Logits.of(&rows(1, 21, &[10])).unwrap()).unwrap();
        runner.finish(first).unwrap();
        let found = runner.finish(second).unwrap().logits;
        assert_silent(&runner);
        Some((found, runner.has_megakernel()))
    };
    let (Some(truth), Some(found)) = (run(None), run(Some(1))) else { return };
    assert!(!found.1, "it gave up");
    let error = nmse(&found.0, &truth.0);
    assert!(error < 1e-7, "NMSE {error:e}");
}

#[test]
fn a_runner_takes_the_memory_that_was_planned() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let ways = [(false, true, CacheType::Q8_0), (true, false, CacheType::F16)];
    for &(megakernel, force_staging, cache) in sample(&ways, 1) {
        let debug = Debug { megakernel: Some(megakernel), force_staging, ..Debug::default() };
        let Some(mut runner) = vulkan(&gguf, Options { debug, ..options(cache) }) else { return };
        let (plan, taken) = (runner.memory_plan(), runner.vk().bytes_in_use());
        // The file's own pages are no buffers of the runner's.
        let in_place = !runner.vk().stages_weights() && runner.vk().caps().host_import_alignment.is_some();
        let expected = plan.at_start() - if in_place { plan.weights } else { 0 };
        assert_eq!(taken, expected, "{plan:?}");
        for pos in 0..3 {
            runner.run(&rows(0, pos, &[5]), Want::Ids).unwrap();
        }
        let more = runner.vk().bytes_in_use() - taken;
        assert!(
            more <= plan.recordings && (more > 0) == runner.has_megakernel(),
            "{more} bytes of recordings, {plan:?}"
        );
    }
}
