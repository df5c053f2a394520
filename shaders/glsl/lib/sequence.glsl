// Rows of one sequence in a step, which need not stand together, and the state that a layer keeps of it. Needs `params`, and of
// push constants `state`, where a block's part starts in the first block, `elements` of a block, and `table_at`.
layout(constant_id = 30) const uint ALONE = 0; // 1: no two rows are of one sequence
const uint NO_ROW = 0xffffffffu;

// The row of the sequence that comes before.
uint row_before(uint row) {
    if (ALONE == 1 || step_pos(params, row) == 0) return NO_ROW;
    const uint seq = step_seq(params, row);
    uint at = row;
    while (at > 0) {
        at--;
        if (step_seq(params, at) == seq) return at;
    }
    return NO_ROW;
}
// The row that comes after.
uint row_after(uint row) {
    if (ALONE == 1) return NO_ROW;
    const uint seq = step_seq(params, row), n = params.w[STEP_ROWS];
    for (uint at = row + 1; at < n; at++) {
        if (step_seq(params, at) == seq) return at;
    }
    return NO_ROW;
}
// The last one.
uint last_row(uint row) {
    const uint seq = step_seq(params, row);
    uint at = params.w[STEP_ROWS] - 1;
    while (ALONE == 0 && at > row && step_seq(params, at) != seq) at--;
    return ALONE == 1 ? row : at;
}
// What the sequence of a row left; whatever is there before position 0, it is zero.
F32 state_of(uint row) {
    uint low, high, carry;
    umulExtended(params.w[step_table(params, row) + table_at], 4 * elements, high, low);
    low = uaddCarry(state.x, low, carry);
    return F32(uvec2(low, state.y + high + carry));
}
