// The products of a chunk of RUN_LINES rows with the activations.
void JOINED(multiply_, RUN)(uint c, uint q[RUN_LINES][CHUNK / 4], vec2 s[RUN_LINES][PIECES], inout float sum[RUN_LINES]) {
    const uint HALVES = CHUNK / 16 / PIECES, UNITS = 16 / UNIT; // of a piece, and of a half of a run
    [[unroll]] for (uint p = 0; p < PIECES; p++) {
        const uint at = chunk_col(c, p * (CHUNK / 4 / PIECES)), unit = unit_at(at / UNIT);
        vec4 run = x_run[run_at(at / 32)];
        if (HALVES == 1 && at / 16 % 2 == 1) run.xy = run.zw;
        [[unroll]] for (uint r = 0; r < RUN_LINES; r++) {
#ifdef HAS_OFFSET
            sum[r] += OFFSET(s[r][p].x, s[r][p].y) * (HALVES == 2 ? run.y + run.w : run.y);
#endif
        }
        float scaled[RUN_LINES];
        [[unroll]] for (uint h = 0; h < HALVES; h++) {
            ivec2 dots[RUN_LINES];
            [[unroll]] for (uint r = 0; r < RUN_LINES; r++) dots[r] = ivec2(0);
            [[unroll]] for (uint u = 0; u < UNITS; u++) {
                const ivec4 a = ivec4(x_q[unit + h * UNITS + u]);
                const uint i = ((p * HALVES + h) * UNITS + u) * (UNIT / 4);
                [[unroll]] for (uint r = 0; r < RUN_LINES; r++) dots[r] = DOTS(dots[r], UNIT_WORDS(q[r], i), a);
            }
            [[unroll]] for (uint r = 0; r < RUN_LINES; r++) {
                const float d = (h == 0 ? run.x : run.z) * float(whole(dots[r]));
                scaled[r] = h == 0 ? d : scaled[r] + d;
            }
        }
        [[unroll]] for (uint r = 0; r < RUN_LINES; r++) sum[r] += s[r][p].x * scaled[r];
    }
}

// A stage of megakernel.glsl with the inputs that INPUTS names and weights of one format; of gate and up together, if RUN_GATED, else
// of RUN_LINES rows at a time. A workgroup's subgroups take those dealt to it in turn. The next chunk of weights is asked for while
// one is used, the first before the activations.
void RUN() {
    const uint COUNT = JOINED(COUNT_OF_, INPUTS);
    const uint CHUNKS = COUNT / CHUNK, TURNS = (CHUNKS + LANES - 1) / LANES, ROWS = RUN_GATED ? 1 : RUN_LINES;
    const bool EVEN = CHUNKS % LANES == 0;
    const uint lane = gl_SubgroupInvocationID, groups = gl_NumWorkGroups.x, turn_rows = gl_NumSubgroups * ROWS;
    const uint first = word(AT_FIRST), m = word(AT_M), last = max(m, 1) - 1, m0 = word(AT_M0), m01 = word(AT_M01);
    const uvec2 w0 = address(AT_W), w1 = address(AT_W + 2), w2 = address(AT_W + 4);
    const uint group = gl_WorkGroupID.x < first ? gl_WorkGroupID.x + groups - first : gl_WorkGroupID.x - first;
    uint local = subgroupBroadcastFirst(gl_SubgroupID) * ROWS; // row, of those of the workgroup
    const uint flags = word(AT_FLAGS);
    const bool sixteens = (flags & (SEND | ADD)) != 0;
#define ROW_OF(local) ((group + local / 16 * groups) * 16 + local % 16)
    uint row = sixteens ? ROW_OF(local) : group * turn_rows + local;
    if (JOINED(NORMS_, INPUTS)) {
        const bool normed = is(NORM) && !is(RECEIVE);
        F32x4 norm = F32x4(address(AT_NORM));
        [[unroll]] for (uint j = 0; j < NORM_VECS; j++) {
            weights[j] = normed ? norm.v[min(gl_LocalInvocationID.x + j * gl_WorkGroupSize.x, COUNT / 4 - 1)] : vec4(1.0);
        }
    }
    Line line[RUN_LINES];
    Raw raw[RUN_LINES];
#if RUN_EXPERTS == 1
#define FIND(from) \
    [[unroll]] for (uint r = 0; r < RUN_LINES; r++) { \
        const uint asked = min(from, last); \
        line[r] = line_of(r == 0 ? w0 : w1, chosen[asked / m0] * m0 + asked % m0, COUNT); \
    }
#elif RUN_EXPERTS == 2
    const uint ONE = COUNT / USED;
    uint found_row;
#define FIND(from) found_row = min(from, last);
#else
#define FIND(from) \
    [[unroll]] for (uint r = 0; r < RUN_LINES; r++) { \
        const uint asked = min(RUN_GATED ? from : from + r, last); \
        if (RUN_GATED) line[r] = line_of(r == 0 ? w0 : w1, asked, COUNT); \
        else line[r] = line_of(asked < m0 ? w0 : asked < m01 ? w1 : w2, asked - (asked < m0 ? 0 : asked < m01 ? m0 : m01), COUNT); \
    }
#endif
#if RUN_EXPERTS == 2
#define LOAD(c) { \
        const uint of_all = EVEN ? c : min(c, CHUNKS - 1); \
        line[0] = line_of(w0, chosen[of_all / (ONE / CHUNK)] * m + found_row, ONE); \
        raw[0] = weight_load(line[0], of_all % (ONE / CHUNK)); \
    }
#else
#define LOAD(c) \
    [[unroll]] for (uint r = 0; r < RUN_LINES; r++) raw[r] = weight_load(line[r], EVEN ? c : min(c, CHUNKS - 1));
#endif
#if RUN_EXPERTS == 1
    JOINED(receive_, INPUTS)();
    choose_experts();
    FIND(row)
    LOAD(lane)
#else
    FIND(row)
    LOAD(lane)
    if (is(QUANTIZE)) JOINED(quantize_, INPUTS)();
    if (is(RECEIVE)) JOINED(receive_, INPUTS)();
#endif
    const bool adds = (flags & ADD) != 0, sends = (flags & SEND) != 0;
    const uvec2 factors = address(AT_FACTORS_OUT);
    const bool weighed = sends && (factors.x | factors.y) != 0;
    Met y = Met(address(AT_Y));
    while (row < m) {
        const uint ahead_row = sixteens ? ROW_OF((local + turn_rows)) : row + groups * turn_rows;
        const uint following = ahead_row < m ? ahead_row : row; // the same again, if there are no more, costs least
        float before[ROWS], factor[ROWS], sum[RUN_LINES];
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            before[r] = 0.0;
            factor[r] = 1.0;
        }
        if (adds) {
            [[unroll]] for (uint r = 0; r < ROWS; r++) before[r] = y.v[min(row + r, last)];
        }
        if (weighed) {
            [[unroll]] for (uint r = 0; r < ROWS; r++) factor[r] = F32(factors).v[min(row + r, last)];
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
#if RUN_EXPERTS == 2
            float of_one[RUN_LINES];
            of_one[0] = 0.0;
            if (EVEN || c < CHUNKS) {
                JOINED(multiply_, RUN)(c, q, s, of_one);
                sum[0] += weight_of[c / (ONE / CHUNK)] * of_one[0];
            }
#else
            if (EVEN || c < CHUNKS) JOINED(multiply_, RUN)(c, q, s, sum);
#endif
        }
        [[unroll]] for (uint r = 0; r < RUN_LINES; r++) sum[r] = subgroupAdd(sum[r]) * norm_scale;
        if (lane == 0) {
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                const uint at = row + r, mine = local + r;
                float result = sum[r];
                if (RUN_GATED) {
                    const float gate = biased(result, 0, at, flags);
                    result = gate / (1.0 + exp(-gate)) * biased(sum[RUN_LINES - 1], 1, at, flags);
                } else if ((flags & ODD) != 0) {
                    if (at < m0) result = biased(result, 0, at, flags);
                    else if (at < m01) result = biased(result, 1, at - m0, flags);
                    else result = biased(result, 2, at - m01, flags);
                }
                result += before[r];
                if (at < m) y.v[at] = result;
                if ((flags & SEND_VALUES) != 0 && at < m) {
                    Values values = Values(uvec2(words[stage][AT_VALUES], words[stage][AT_VALUES + 1]));
                    values.v[at] = uvec2(floatBitsToUint(result), epochs + words[stage][AT_VALUES_EPOCH]);
                }
                if (sends) {
                    outgoing[mine / 4][mine % 4] = result * factor[r];
                    outgoing_squares[mine / 4][mine % 4] = result * result;
                }
            }
            if (sends) bring(local, ROWS, row / 16);
        }
        local += turn_rows;
        row = ahead_row;
    }
}
#undef LOAD
#undef ROW_OF
#undef FIND
