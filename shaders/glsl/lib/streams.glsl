// By which of a row's positions its pairs rotate: plan/src/vectors.rs. Needs `params`.
layout(constant_id = 40) const uint STREAMS = 0;  // 0: all by one; else the pairs of all sections, and 1 << 16 if they take turns
layout(constant_id = 41) const uint SECTIONS = 0; // pairs of the first three, of 10 bits each

uint stream_of(uint pair) {
    const uint at = pair % max(STREAMS & 0xffff, 1), a = SECTIONS & 1023, b = SECTIONS >> 10 & 1023, c = SECTIONS >> 20;
    if (STREAMS >> 16 == 0) return at < a ? MEDIUM_TIME : at < a + b ? MEDIUM_HEIGHT : at < a + b + c ? MEDIUM_WIDTH : MEDIUM_FOURTH;
    const uint turn = at % 3;
    return at < 3 * (turn == 0 ? a : turn == 1 ? b : c) ? MEDIUM_TIME + turn : MEDIUM_FOURTH;
}
uint rope_pos(uint row, uint pair) {
    return STREAMS == 0 ? step_rope(params, row) : step_medium(params, row, stream_of(pair));
}
