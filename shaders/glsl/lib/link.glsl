// Order between dispatches with no barrier between them, if LINKED: a dispatch counts its workgroups as they end, and the
// next one's wait for the count once they have asked for all that does not depend on it. What earlier dispatches of a step
// wrote must then be read through coherent views, for nothing else empties the caches close to the threads.
//
// A link is one word: bits 0..3 the counter of this dispatch, 3..6 of the one before, 6..9 one to clear, for nobody waits
// for it any more (7: all but this one's), 9..29 what the one before counts up to.
layout(constant_id = 21) const uint LINKED = 0;
layout(buffer_reference, std430, buffer_reference_align = 4) coherent volatile buffer Links { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer LinkedF32 { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer LinkedF32x4 { vec4 v[]; };
const uint LINK_WORDS = 32;   // a counter has a cache line
const uint LINK_COUNTERS = 5;
const uint LINK_LATE = LINK_COUNTERS * LINK_WORDS; // this word is set if a wait was given up
const uint LINK_TURNS = 1 << 20; // about a second

void link_await(Links links, uint link) {
    if (LINKED == 0) return;
    if (gl_LocalInvocationIndex == 0) {
        uint before = ((link >> 3) & 7) * LINK_WORDS, count = (link >> 9) & 0xfffff, turns = 0;
        while (links.v[before] < count && turns < LINK_TURNS) {
            turns++;
            if (turns % 1024 == 0 && links.v[LINK_LATE] != 0) turns = LINK_TURNS;
        }
        if (turns == LINK_TURNS) links.v[LINK_LATE] = 1;
        memoryBarrierBuffer();
        if (gl_WorkGroupID == uvec3(0)) {
            uint spent = (link >> 6) & 7;
            for (uint i = 0; i < LINK_COUNTERS; i++) {
                if (i == spent || (spent == 7 && i != (link & 7))) links.v[i * LINK_WORDS] = 0;
            }
        }
    }
    barrier();
    memoryBarrierBuffer();
}

// Every workgroup must come here once, those without work too.
void link_done(Links links, uint link) {
    if (LINKED == 0) return;
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationIndex == 0) atomicAdd(links.v[(link & 7) * LINK_WORDS], 1);
}
