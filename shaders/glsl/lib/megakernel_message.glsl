// What stages of megakernel.glsl hand on: messages of sixteen values, coded as lib/quantize.glsl says. Parts of 16 bytes, each stored and
// loaded at once, hold three words and an epoch: the codes, then the sum of the codes, the scale, and the sum of the values' squares;
// of 8 bits, the first sum, of 12 bits, takes the last bits of the second.
const uint PARTS = BITS == 16 ? 4 : 2; // of a message
const uint SUM_BITS = 0xfff;
shared vec4 outgoing[MESSAGES * 4], outgoing_squares[MESSAGES * 4];
shared uint arrived[2][MESSAGES]; // values of a message that are there

// Whether to look for messages once more, as long as a thread of the subgroup lacks one: all of them do, for the compiler takes
// what follows a loop that threads leave one by one for a place where they may be apart.
bool again(bool found, inout uint spins) {
    if (subgroupBallot(!found) == uvec4(0)) return false;
    if (++spins == SPIN) {
        gave_up.v[0] = 1;
        fault.v[0] = 1;
    }
    return spins < SPIN && (spins % 1024 != 0 || subgroupBroadcastFirst(gave_up.v[0]) == 0);
}

// Sends a message of those in `outgoing`; one thread does.
void send(uint slot, uint message) {
    vec4 x[4];
    float largest = 0.0, square = 0.0;
    [[unroll]] for (uint u = 0; u < 4; u++) {
        x[u] = outgoing[slot * 4 + u];
        vec4 a = abs(x[u]);
        largest = max(largest, max(max(a.x, a.y), max(a.z, a.w)));
        square += dot(outgoing_squares[slot * 4 + u], vec4(1.0));
    }
    uint codes[8], scale = floatBitsToUint(largest / STEPS);
    int sum = 0;
    [[unroll]] for (uint u = 0; u < 4; u++) {
        uvec2 both = quantized(x[u], largest);
        codes[BITS == 16 ? 2 * u : u] = both.x;
        if (BITS == 16) codes[2 * u + 1] = both.y;
        sum += dotPacked4x8EXT(0x01010101, int(both.x)) * (BITS == 16 ? 256 : 1);
        if (BITS == 16) sum += dotPacked4x8EXT(0x01010101, int(both.y));
    }
    const uint epoch = epochs + words[stage][AT_EPOCH_OUT], at = message * PARTS;
    Messages to = Messages(uvec2(words[stage][AT_MESSAGES_OUT], words[stage][AT_MESSAGES_OUT + 1]));
    to.v[at] = uvec4(codes[0], codes[1], codes[2], epoch);
    if (BITS == 16) {
        to.v[at + 1] = uvec4(codes[3], codes[4], codes[5], epoch);
        to.v[at + 2] = uvec4(codes[6], codes[7], 0, epoch);
        to.v[at + 3] = uvec4(sum, scale, floatBitsToUint(square), epoch);
    } else {
        const uint rounded = (floatBitsToUint(square) + SUM_BITS / 2) & ~SUM_BITS;
        to.v[at + 1] = uvec4(codes[3], scale, rounded | (uint(sum) & SUM_BITS), epoch);
    }
}

// Rows `local` and so on of the workgroup's are in `outgoing`; the thread that brings the last of sixteen sends them.
void bring(uint local, uint count, uint message) {
    memoryBarrierShared();
    if (atomicAdd(arrived[stage][local / 16], count) + count < 16) return;
    memoryBarrierShared();
    send(local / 16, message);
}

// Puts a part of a message where products find it; the sum of squares of what it holds.
float take_part(uint i, uvec4 part) {
    uint message = i / PARTS, unit = unit_at(message * 16 / UNIT);
    [[unroll]] for (uint c = 0; c < 3; c++) {
        uint at = i % PARTS * 3 + c;
        if (at < BITS / 2) x_q[unit + at / 4][at % 4] = part[c];
    }
    if (i % PARTS != PARTS - 1) return 0.0;
    float scale = uintBitsToFloat(part.y);
    int sum = BITS == 16 ? int(part.x) : bitfieldExtract(int(part.z), 0, 12);
    uint run = run_at(message / 2), half_at = message % 2 * 2;
    x_run[run][half_at] = scale;
    x_run[run][half_at + 1] = scale * float(sum);
    return uintBitsToFloat(BITS == 16 ? part.z : part.z & ~SUM_BITS);
}

// What a workgroup's message holds in the trial, beside its epoch: every word differs from those of all other messages in that
// place, so that a store of which a part comes late is seen. `salt` is 0, but where a test wants a message that is wrong.
uvec3 trial_words(uint epoch, uint sender, uint salt) {
    return (uvec3(1, 2, 3) + epoch) * 0x9e3779b9u ^ (uvec3(3, 1, 2) + sender) * 0x85ebca6bu ^ salt;
}

// Every workgroup sends a message and waits for those of the stage before.
void meet() {
    const uint t = gl_LocalInvocationID.x, expected = epochs + word(AT_EPOCH_IN), sent = epochs + word(AT_EPOCH_OUT);
    uint spins = 0;
    Messages there = Messages(address(AT_MESSAGES_IN));
    for (uint i = 0; i < gl_NumWorkGroups.x && is(RECEIVE); i += gl_WorkGroupSize.x) {
        const uint sender = min(i + t, gl_NumWorkGroups.x - 1);
        uvec4 message;
        do {
            message = there.v[sender];
        } while (again(message.w == expected, spins));
        if (message.w == expected && message.xyz != trial_words(expected, sender, 0)) {
            gave_up.v[0] = 1;
            fault.v[0] = 1;
        }
    }
    barrier();
    if (t == 0) {
        const uvec3 words = trial_words(sent, gl_WorkGroupID.x, word(AT_K));
        Messages(address(AT_MESSAGES_OUT)).v[gl_WorkGroupID.x] = uvec4(words, sent);
    }
}
