//! Which rows the next step has, as plain data.
//!
//! Every answer that decodes gets its row in every step; prompts get what is left, the oldest first, and no more beside running answers
//! than keeps the step short. Sources have steps of their own, each whole in one, between which answers go on.

/// What a sequence at work could take into the next step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepNeed {
    /// Ids that are known and were not fed yet: one where an answer goes on, more of a prompt, none if it has to wait.
    pub rows: usize,
    /// Whether it is a prompt, or a part of one.
    pub prompt: bool,
    /// Whether it is a source: all of it or nothing.
    pub source: bool,
    /// Whether no others share a step with it.
    pub alone: bool,
}

/// How large steps may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepSizes {
    /// Most rows of a step.
    pub max_rows: usize,
    /// Rows of a step in which a prompt stands beside answers, more where these alone would be over half of it; a power of two, as steps
    /// of that many rows cost no more than those of a few less.
    pub beside: usize,
}

/// Rows of each, in the order of `needs`, which is that of age. `turn` says who is first where not even all answers fit.
pub fn share(needs: &[StepNeed], sizes: StepSizes, turn: usize, rows: &mut Vec<usize>) {
    rows.clear();
    rows.resize(needs.len(), 0);
    let waits = |need: &StepNeed| need.rows > 0;
    let rest = needs.iter().any(|need| waits(need) && !need.alone);
    let alone = (0..needs.len()).filter(|i| waits(&needs[*i]) && needs[*i].alone);
    // Each of these has its turn, and so have all others together.
    let turns = alone.clone().count() + usize::from(rest);
    if let Some(one) = (turns > 0).then(|| turn % turns).and_then(|at| alone.clone().nth(at)) {
        rows[one] = needs[one].rows.min(sizes.max_rows);
        return;
    }
    let kept: Vec<StepNeed>;
    let needs = match turns > usize::from(rest) {
        true => {
            kept = needs.iter().map(|need| if need.alone { StepNeed::default() } else { *need }).collect();
            &kept[..]
        }
        false => needs,
    };
    let mut left = sizes.max_rows;
    let others = needs.iter().any(|need| need.rows > 0 && !need.source);
    if needs.iter().any(|need| need.source) && (turn.is_multiple_of(2) || !others) {
        for (need, rows) in needs.iter().zip(rows).filter(|(need, _)| need.source) {
            if need.rows <= left {
                *rows = need.rows;
                left -= need.rows;
            }
        }
        return;
    }
    let goes_on = |need: &StepNeed| need.rows > 0 && !need.prompt;
    for i in (0..needs.len()).map(|i| (i + turn) % needs.len().max(1)) {
        if goes_on(&needs[i]) && left > 0 {
            rows[i] = 1;
            left -= 1;
        }
    }
    let used = sizes.max_rows - left;
    if used > 0 {
        left = sizes.beside.max((2 * used).next_power_of_two()).min(sizes.max_rows) - used;
    }
    for (need, rows) in needs.iter().zip(rows).filter(|(need, _)| need.prompt && !need.source) {
        *rows = need.rows.min(left);
        left -= *rows;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_go_on_and_prompts_get_the_rest_oldest_first() {
        let prompt = |rows| StepNeed { rows, prompt: true, ..StepNeed::default() };
        let (on, wait) = (StepNeed { rows: 1, ..StepNeed::default() }, StepNeed::default());
        let sizes = StepSizes { max_rows: 8, beside: 4 };
        let table: &[(&[StepNeed], usize, &[usize])] = &[
            (&[], 0, &[]),
            (&[prompt(3)], 0, &[3]),
            (&[prompt(30)], 0, &[8]),
            (&[prompt(5), prompt(5)], 0, &[5, 3]),
            (&[on, prompt(30)], 0, &[1, 3]),
            (&[prompt(30), on, on], 0, &[2, 1, 1]),
            (&[prompt(2), on, prompt(9)], 0, &[2, 1, 1]),
            (&[on, wait, on], 1, &[1, 0, 1]),
            (&[on; 8], 0, &[1; 8]),
            (&[on; 10], 9, &[1, 1, 1, 1, 1, 1, 1, 0, 0, 1]),
            (&[on, on, on, on, on, on, prompt(9)], 0, &[1, 1, 1, 1, 1, 1, 2]),
        ];
        let mut rows = Vec::new();
        for (needs, turn, expected) in table {
            share(needs, sizes, *turn, &mut rows);
            assert_eq!(&rows, expected, "{needs:?}");
        }
    }

    #[test]
    fn what_is_to_be_alone_has_a_turn_of_its_own() {
        let (on, alone) = (
            StepNeed { rows: 1, ..StepNeed::default() },
            StepNeed { rows: 5, prompt: true, source: false, alone: true },
        );
        let waits = StepNeed { rows: 0, alone: true, ..StepNeed::default() };
        let sizes = StepSizes { max_rows: 8, beside: 4 };
        let needs = [on, alone, StepNeed { rows: 9, ..alone }, on, waits];
        let expected = [[0, 5, 0, 0, 0], [0, 0, 8, 0, 0], [1, 0, 0, 1, 0]];
        let mut rows = Vec::new();
        for turn in 0..6 {
            share(&needs, sizes, turn, &mut rows);
            assert_eq!(rows, expected[turn % 3], "{turn}");
        }
        share(&[waits, on], sizes, 0, &mut rows);
        assert_eq!(rows, [0, 1]);
    }

    #[test]
    fn sources_stand_whole_in_steps_of_their_own_and_answers_go_on_between() {
        let source = |rows| StepNeed { rows, prompt: true, source: true, alone: false };
        let (on, prompt) =
            (StepNeed { rows: 1, ..StepNeed::default() }, StepNeed { rows: 3, prompt: true, ..StepNeed::default() });
        let sizes = StepSizes { max_rows: 8, beside: 4 };
        let table: &[(&[StepNeed], usize, &[usize])] = &[
            (&[source(8)], 1, &[8]),
            (&[source(5), source(4), source(3)], 0, &[5, 0, 3]),
            (&[on, source(5), prompt, on], 0, &[0, 5, 0, 0]),
            (&[on, source(5), prompt, on], 1, &[1, 0, 2, 1]),
        ];
        let mut rows = Vec::new();
        for (needs, turn, expected) in table {
            share(needs, sizes, *turn, &mut rows);
            assert_eq!(&rows, expected, "{needs:?} {turn}");
        }
    }
}
