// Rows of several sequences that meet in a tile of BR queries of GH heads: each sequence is walked in turn, by the first of its rows.
// Needs `table_of` and its kin (lib/mask.glsl), and BC, the positions at a time.
shared uint row_table[BR], row_pos[BR], row_first[BR];   // a query sees positions from this one on,
shared uint row_len[BR];                                 // below this one; 0: no such row
shared uint lead_first[BR], lead_len[BR];                // what all of its sequence see, of the first of each
#ifdef LEADS_WHOLE
shared uint lead_from[BR], lead_whole[BR];               // and what every query of the tile sees
#endif

// Of rows from `first` on, below `n`; the caller waits before it reads.
void find_leads(uint first, uint n) {
    const uint t = gl_LocalInvocationID.x;
    if (t < BR) {
        const uint row = first + t / GH;
        const bool there = row < n;
        row_table[t] = there ? table_of(row) : 0xffffffff;
        row_pos[t] = there ? step_pos(params, row) : 0;
        row_first[t] = there ? first_seen(row, row_pos[t]) : 0;
        row_len[t] = there ? end_seen(row) : 0;
    }
    barrier();
    if (t >= BR) return;
    uint begin = 0xffffffff, len = 0, from = 0, whole = 0xffffffff;
    bool leads = true;
    for (uint i = 0; i < BR; i++) {
        const bool same = row_table[i] == row_table[t];
        if (row_len[i] > 0) {
            from = max(from, row_first[i]);
            whole = same ? min(whole, row_len[i]) : 0;
        }
        if (!same) continue;
        if (i < t) leads = false;
        begin = min(begin, row_first[i]);
        len = max(len, row_len[i]);
    }
    lead_first[t] = begin / BC * BC;
    lead_len[t] = leads ? len : 0;
#ifdef LEADS_WHOLE
    lead_from[t] = from;
    lead_whole[t] = whole;
#endif
}
