// The products of a chunk of RUN_LINES rows with the activations.
void RUN_MULTIPLY(uint c, uint q[RUN_LINES][CHUNK / 4], vec2 s[RUN_LINES][PIECES], inout float sum[RUN_LINES]) {
    const uint HALVES = CHUNK / 8 / PIECES; // units of a piece
    [[unroll]] for (uint p = 0; p < PIECES; p++) {
        const uint at = chunk_col(c, p * 2 * HALVES), unit = unit_at(at / 8);
        ivec2 dots[RUN_LINES];
        [[unroll]] for (uint r = 0; r < RUN_LINES; r++) dots[r] = ivec2(0);
        [[unroll]] for (uint h = 0; h < HALVES; h++) {
            const ivec4 a = ivec4(x_codes[unit + h]);
            [[unroll]] for (uint r = 0; r < RUN_LINES; r++) {
                const uint i = (p * HALVES + h) * 2;
                dots[r].x = DOT4(q[r][i], a.x) + dots[r].x;
                dots[r].x = DOT4(q[r][i + 1], a.z) + dots[r].x;
                dots[r].y = DOT4(q[r][i], a.y) + dots[r].y;
                dots[r].y = DOT4(q[r][i + 1], a.w) + dots[r].y;
            }
        }
        const vec2 run = x_run[at / 32];
#ifdef HAS_OFFSET
        const float all = HALVES == 4 ? run.y : x_sum[at / 32][at / 16 % 2];
#endif
        [[unroll]] for (uint r = 0; r < RUN_LINES; r++) {
            sum[r] += run.x * s[r][p].x * float(dots[r].x * 256 + dots[r].y);
#ifdef HAS_OFFSET
            sum[r] += s[r][p].y * all;
#endif
        }
    }
}

// A stage of chain.comp with RUN_K inputs and weights of one format; of gate and up together, if RUN_LINES is 2. Rows are dealt
// to the subgroups of all workgroups; the next chunk of weights is asked for while one is used, the first before the wait.
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
    // Two turns a row: both are under way at once. More: one is.
    const uint SLOTS = TURNS == 2 ? 2 : 1;
    Line line[RUN_LINES];
    Raw raw[SLOTS][RUN_LINES];
#define FIND(asked) \
    if (RUN_LINES == 2) { \
        line[0] = line_of(w0, asked, RUN_K); \
        line[RUN_LINES - 1] = line_of(w1, asked, RUN_K); \
    } else { \
        line[0] = line_of(asked < m0 ? w0 : asked < m01 ? w1 : w2, asked - (asked < m0 ? 0 : asked < m01 ? m0 : m01), RUN_K); \
    }
#define LOAD(slot, c) \
    [[unroll]] for (uint r = 0; r < RUN_LINES; r++) raw[slot][r] = weight_load(line[r], EVEN ? c : min(c, CHUNKS - 1));
    FIND(min(row, last))
    LOAD(0, lane)
    if (SLOTS == 2) LOAD(SLOTS - 1, lane + LANES)
    await_others(s);
    if (is(CODE)) RUN_CODE();
    const uint flags = word(AT_FLAGS);
    const bool adds = (flags & ADD) != 0;
    Met y = Met(address(AT_Y));
    while (row < m) {
        const uint following = row + step < m ? row + step : row; // the same again, if there are no more, costs least
        float before = 0.0, sum[RUN_LINES];
        if (adds) before = y.v[row];
        [[unroll]] for (uint r = 0; r < RUN_LINES; r++) sum[r] = 0.0;
        uint q[RUN_LINES][CHUNK / 4];
        vec2 s[RUN_LINES][PIECES];
#define DECODE(slot, c) \
        [[unroll]] for (uint r = 0; r < RUN_LINES; r++) weight_codes(raw[slot][r], EVEN ? c : min(c, CHUNKS - 1), q[r], s[r]);
#define MULTIPLY(c) if (EVEN || c < CHUNKS) RUN_MULTIPLY(c, q, s, sum);
        if (SLOTS == 2) {
            FIND(following)
            DECODE(0, lane)
            LOAD(0, lane)
            MULTIPLY(lane)
            DECODE(SLOTS - 1, lane + LANES)
            LOAD(SLOTS - 1, lane + LANES)
            MULTIPLY(lane + LANES)
        } else {
            for (uint turn = 0; turn < TURNS; turn++) {
                const uint c = turn * LANES + lane, ahead = turn + 1 == TURNS ? lane : c + LANES;
                DECODE(0, c)
                if (turn + 1 == TURNS) {
                    FIND(following)
                }
                LOAD(0, ahead)
                MULTIPLY(c)
            }
        }
        [[unroll]] for (uint r = 0; r < RUN_LINES; r++) sum[r] = subgroupAdd(sum[r]) * norm_scale;
        float result = sum[0];
        if (RUN_LINES == 2) {
            const float gate = biased(result, 0, row, flags);
            result = gate / (1.0 + exp(-gate)) * biased(sum[RUN_LINES - 1], 1, row, flags);
        } else if (flags >= ODD) {
            if (row < m0) result = biased(result, 0, row, flags);
            else if (row < m01) result = biased(result, 1, row - m0, flags);
            else result = biased(result, 2, row - m01, flags);
        }
        if (subgroupElect()) y.v[row] = before + result;
        row += step;
    }
}
#undef LOAD
#undef FIND
#undef DECODE
#undef MULTIPLY
#undef RUN
#undef RUN_MULTIPLY
#undef RUN_K
#undef RUN_CODE
#undef RUN_NORM
#undef RUN_LINES
