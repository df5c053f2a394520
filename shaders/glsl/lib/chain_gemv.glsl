// A stage of chain.comp with RUN_K inputs and weights of one format; of gate and up in turn, if RUN_GATED. Rows are dealt to
// the subgroups of all workgroups; a subgroup goes through the chunks of its rows one after the other, DEPTH of them under way.
void RUN(uint s) {
    const uint CHUNKS = RUN_K / CHUNK, TURNS = (CHUNKS + LANES - 1) / LANES;
    const bool EVEN = CHUNKS % LANES == 0;
    const uint lane = gl_SubgroupInvocationID, step = gl_NumWorkGroups.x * gl_NumSubgroups;
    const uint first = word(AT_FIRST), m = word(AT_M), last = max(m, 1) - 1, m0 = word(AT_M0), m01 = word(AT_M01);
    const uvec2 w0 = address(AT_W), w1 = address(AT_W + 2), w2 = address(AT_W + 4);
    uint row = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
    row = subgroupBroadcastFirst(row < first ? row + step - first : row - first);
    if (RUN_NORM) {
        const bool normed = is(NORM);
        F32x4 norm = F32x4(address(AT_NORM));
        [[unroll]] for (uint j = 0; j < NORM_VECS; j++) {
            weights[j] = normed ? norm.v[min(gl_LocalInvocationID.x + j * gl_WorkGroupSize.x, RUN_K / 4 - 1)] : vec4(1.0);
        }
    }
    // The chunk that is asked for next.
    uint ask_row = row, ask_turn = 0;
    bool ask_up = false;
    // Rows past the end are the last one.
#define FIND \
    uint asked = min(ask_row, last); \
    line = RUN_GATED ? line_of(ask_up ? w1 : w0, asked, RUN_K) \
        : line_of(asked < m0 ? w0 : asked < m01 ? w1 : w2, asked - (asked < m0 ? 0 : asked < m01 ? m0 : m01), RUN_K);
    Line line;
    { FIND }
    Raw raw[DEPTH];
#define LOAD(d) raw[d] = weight_load(line, EVEN ? ask_turn * LANES + lane : min(ask_turn * LANES + lane, CHUNKS - 1));
#define GO_ON \
    if (++ask_turn == TURNS) { \
        ask_turn = 0; \
        ask_up = RUN_GATED && !ask_up; \
        if (!ask_up) ask_row += step; \
        FIND \
    }
    [[unroll]] for (uint d = 0; d < DEPTH; d++) {
        LOAD(d) // wanted or not: what a branch leaves alone would be kept through all stages
        GO_ON
    }
    await_others(s);
    if (is(CODE)) RUN_CODE();
    const uint flags = word(AT_FLAGS);
    const bool adds = (flags & ADD) != 0;
    Met y = Met(address(AT_Y));
    float sum = 0.0, gate = 0.0, before = 0.0;
    bool up = false;
    uint turn = 0;
    while (row < m) {
        [[unroll]] for (uint d = 0; d < DEPTH; d++) {
            if (row < m) {
                uint c = turn * LANES + lane, q[CHUNK / 4];
                vec2 s[PIECES];
                weight_codes(raw[d], EVEN ? c : min(c, CHUNKS - 1), q, s);
                if (ask_row < m) {
                    LOAD(d)
                    GO_ON
                }
                if (adds && turn == 0) before = y.v[row];
                if (EVEN || c < CHUNKS) sum += PRODUCT(c, q, s);
                if (++turn == TURNS) {
                    turn = 0;
                    sum = subgroupAdd(sum) * norm_scale;
                    if (RUN_GATED && !up) {
                        gate = sum;
                    } else {
                        if (RUN_GATED) {
                            gate = biased(gate, 0, row, flags);
                            sum = gate / (1.0 + exp(-gate)) * biased(sum, 1, row, flags);
                        } else if (flags >= ODD) {
                            if (row < m0) sum = biased(sum, 0, row, flags);
                            else if (row < m01) sum = biased(sum, 1, row - m0, flags);
                            else sum = biased(sum, 2, row - m01, flags);
                        }
                        if (subgroupElect()) y.v[row] = before + sum;
                        row += step;
                    }
                    up = RUN_GATED && !up;
                    sum = 0.0;
                }
            }
        }
    }
}
#undef LOAD
#undef GO_ON
#undef FIND
#undef RUN
#undef RUN_K
#undef RUN_CODE
#undef RUN_NORM
#undef RUN_GATED
