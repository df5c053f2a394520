// The products of a chunk of RUN_LINES rows with the activations.
void RUN_MULTIPLY(uint c, uint q[RUN_LINES][CHUNK / 4], vec2 s[RUN_LINES][PIECES], inout float sum[RUN_LINES]) {
    const uint UNITS = CHUNK / UNIT / PIECES; // of a piece
    [[unroll]] for (uint p = 0; p < PIECES; p++) {
        const uint at = chunk_col(c, p * (CHUNK / 4 / PIECES)), unit = unit_at(at / UNIT);
        ivec2 dots[RUN_LINES];
        [[unroll]] for (uint r = 0; r < RUN_LINES; r++) dots[r] = ivec2(0);
        [[unroll]] for (uint h = 0; h < UNITS; h++) {
            const ivec4 a = ivec4(x_codes[unit + h]);
            [[unroll]] for (uint r = 0; r < RUN_LINES; r++) {
                const uint i = (p * UNITS + h) * (UNIT / 4);
                if (BITS == 16) {
                    dots[r].x += DOT4(q[r][i], a.x) + DOT4(q[r][i + 1], a.z);
                    dots[r].y += DOT4(q[r][i], a.y) + DOT4(q[r][i + 1], a.w);
                } else {
                    dots[r].x += DOT4(q[r][i], a.x) + DOT4(q[r][i + 1], a.y);
                    dots[r].x += DOT4(q[r][i + 2], a.z) + DOT4(q[r][i + 3], a.w);
                }
            }
        }
        const vec2 run = x_run[at / 32];
#ifdef HAS_OFFSET
        const float all = PIECES * 32 == CHUNK ? run.y : x_sum[at / 32][at / 16 % 2];
#endif
        [[unroll]] for (uint r = 0; r < RUN_LINES; r++) {
            sum[r] += run.x * s[r][p].x * float(whole(dots[r]));
#ifdef HAS_OFFSET
            sum[r] += s[r][p].y * all;
#endif
        }
    }
}

// A stage of chain.comp with RUN_K inputs and weights of one format; of gate and up together, if RUN_GATED, else of RUN_LINES
// rows at a time. They are dealt to the subgroups of all workgroups. The next chunk of weights is asked for while one is used,
// the first before the wait.
void RUN(uint s) {
    const uint CHUNKS = RUN_K / CHUNK, TURNS = (CHUNKS + LANES - 1) / LANES, ROWS = RUN_GATED ? 1 : RUN_LINES;
    const bool EVEN = CHUNKS % LANES == 0;
    const uint lane = gl_SubgroupInvocationID, subgroups = gl_NumWorkGroups.x * gl_NumSubgroups, step = subgroups * ROWS;
    const uint first = word(AT_FIRST), m = word(AT_M), last = max(m, 1) - 1, m0 = word(AT_M0), m01 = word(AT_M01);
    const uvec2 w0 = address(AT_W), w1 = address(AT_W + 2), w2 = address(AT_W + 4);
    uint row = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
    row = subgroupBroadcastFirst(row < first ? row + subgroups - first : row - first) * ROWS;
    if (RUN_NORM) {
        const bool normed = is(NORM);
        F32x4 norm = F32x4(address(AT_NORM));
        [[unroll]] for (uint j = 0; j < NORM_VECS; j++) {
            weights[j] = normed ? norm.v[min(gl_LocalInvocationID.x + j * gl_WorkGroupSize.x, RUN_K / 4 - 1)] : vec4(1.0);
        }
    }
    Line line[RUN_LINES];
    Raw raw[RUN_LINES];
#define FIND(from) \
    [[unroll]] for (uint r = 0; r < RUN_LINES; r++) { \
        const uint asked = min(RUN_GATED ? from : from + r, last); \
        if (RUN_GATED) line[r] = line_of(r == 0 ? w0 : w1, asked, RUN_K); \
        else line[r] = line_of(asked < m0 ? w0 : asked < m01 ? w1 : w2, asked - (asked < m0 ? 0 : asked < m01 ? m0 : m01), RUN_K); \
    }
#define LOAD(c) \
    [[unroll]] for (uint r = 0; r < RUN_LINES; r++) raw[r] = weight_load(line[r], EVEN ? c : min(c, CHUNKS - 1));
    FIND(row)
    LOAD(lane)
    await_others(s);
    if (is(CODE)) RUN_CODE();
    const uint flags = word(AT_FLAGS);
    const bool adds = (flags & ADD) != 0;
    Met y = Met(address(AT_Y));
    while (row < m) {
        const uint following = row + step < m ? row + step : row; // the same again, if there are no more, costs least
        float before[ROWS], sum[RUN_LINES];
        [[unroll]] for (uint r = 0; r < ROWS; r++) before[r] = 0.0;
        if (adds) {
            [[unroll]] for (uint r = 0; r < ROWS; r++) before[r] = y.v[min(row + r, last)];
        }
        [[unroll]] for (uint r = 0; r < RUN_LINES; r++) sum[r] = 0.0;
        uint q[RUN_LINES][CHUNK / 4];
        vec2 s[RUN_LINES][PIECES];
        for (uint turn = 0; turn < TURNS; turn++) {
            const uint c = turn * LANES + lane, ahead = turn + 1 == TURNS ? lane : c + LANES;
            // Where in its block a chunk is, which is all that codes ask, is the same for a thread in all turns.
            [[unroll]] for (uint r = 0; r < RUN_LINES; r++) weight_codes(raw[r], lane, q[r], s[r]);
            if (turn + 1 == TURNS) {
                FIND(following)
            }
            LOAD(ahead)
            if (EVEN || c < CHUNKS) RUN_MULTIPLY(c, q, s, sum);
        }
        [[unroll]] for (uint r = 0; r < RUN_LINES; r++) sum[r] = subgroupAdd(sum[r]) * norm_scale;
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            const uint at = row + r;
            float result = sum[r];
            if (RUN_GATED) {
                const float gate = biased(result, 0, at, flags);
                result = gate / (1.0 + exp(-gate)) * biased(sum[RUN_LINES - 1], 1, at, flags);
            } else if (flags >= ODD) {
                if (at < m0) result = biased(result, 0, at, flags);
                else if (at < m01) result = biased(result, 1, at - m0, flags);
                else result = biased(result, 2, at - m01, flags);
            }
            if (subgroupElect() && at < m) y.v[at] = before[r] + result;
        }
        row += step;
    }
}
#undef LOAD
#undef FIND
#undef RUN
#undef RUN_MULTIPLY
#undef RUN_K
#undef RUN_CODE
#undef RUN_NORM
#undef RUN_LINES
#undef RUN_GATED
