//! What the system says of processors: files of `/sys` and `/proc`, each read by a function of its text.

use std::collections::HashSet;

/// Numbers of a list such as `0-3,8`.
fn list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (usize, usize) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        // A list is of processors: a longer one is none.
        Some(from..=to.min(from.saturating_add(1 << 16)))
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// Processors' worth of a quota in `cpu.max`: `150000 100000` are two, for a part of one is worth a thread.
fn quota_v2(cpu_max: &str) -> Option<usize> {
    let (quota, period) = cpu_max.trim().split_once(' ')?;
    quota_of(quota, period)
}

/// Processors' worth of a quota in `cpu.cfs_quota_us`, which is -1 where there is none, and `cpu.cfs_period_us`.
fn quota_of(quota: &str, period: &str) -> Option<usize> {
    let (quota, period): (usize, usize) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (period > 0).then(|| quota.div_ceil(period).max(1))
}

/// Folders of the process's control groups, from its own up, by `/proc/self/cgroup`: of version 2, of version 1's `cpu`.
fn groups(text: &str) -> [Vec<String>; 2] {
    let mut found = [Vec::new(), Vec::new()];
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (at, root) = match controllers {
            "" => (0, "/sys/fs/cgroup"),
            _ if controllers.split(',').any(|c| c == "cpu") => (1, "/sys/fs/cgroup/cpu"),
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        found[at].push(format!("{root}{path}"));
        while let Some((above, _)) = path.rsplit_once('/') {
            path = above;
            found[at].push(format!("{root}{path}"));
        }
    }
    found
}

/// Physical cores that the allowed processors are of: their different lists of siblings.
fn different(siblings: impl Iterator<Item = String>) -> Option<usize> {
    let cores: HashSet<Vec<usize>> = siblings.map(|text| list(&text)).collect();
    (!cores.is_empty()).then_some(cores.len())
}

/// What the process's control groups leave it, where they do not leave it all.
pub(super) fn quota() -> Option<usize> {
    quota_by(&|path| std::fs::read_to_string(path).ok())
}

/// Processors' worth of the process's quota, by the files that `read` reads: the least of the process's own group and of all above it.
fn quota_by(read: &dyn Fn(&str) -> Option<String>) -> Option<usize> {
    let [v2, v1] = groups(&read("/proc/self/cgroup")?);
    let v2 = v2.into_iter().filter_map(|folder| quota_v2(&read(&format!("{folder}/cpu.max"))?));
    let v1 = v1.into_iter().filter_map(|folder| {
        quota_of(&read(&format!("{folder}/cpu.cfs_quota_us"))?, &read(&format!("{folder}/cpu.cfs_period_us"))?)
    });
    v2.chain(v1).min()
}

/// Processors that the process may run on; none where the system does not tell.
#[cfg(target_os = "linux")]
pub(super) fn allowed_processors() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None);
    set.map_or(Vec::new(), |set| (0..rustix::thread::CpuSet::MAX_CPU).filter(|p| set.is_set(*p)).collect())
}

/// Physical cores of these processors, where the system tells.
pub(super) fn cores(allowed: &[usize]) -> Option<usize> {
    let siblings = |p: &usize| {
        std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{p}/topology/thread_siblings_list")).ok()
    };
    different(allowed.iter().filter_map(siblings))
}

/// Processors of each node.
pub(super) fn nodes() -> Vec<Vec<usize>> {
    let read = |node: usize| std::fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpulist")).ok();
    let online = std::fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    list(&online).into_iter().filter_map(read).map(|text| list(&text)).filter(|node| !node.is_empty()).collect()
}

/// The processor that the calling thread runs on.
#[cfg(target_os = "linux")]
pub(super) fn here() -> usize {
    rustix::thread::sched_getcpu()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn allowed_processors() -> Vec<usize> {
    Vec::new()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn here() -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_quotas_and_groups_are_read_as_the_system_writes_them() {
        assert_eq!(list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!((list(""), list("x-2"), list("7")), (vec![], vec![], vec![7]));
        assert_eq!(quota_v2("max 100000\n"), None);
        assert_eq!(
            [quota_v2("100000 100000"), quota_v2("150000 100000\n"), quota_v2("50000 100000")],
            [1, 2, 1].map(Some)
        );
        assert_eq!((quota_v2("1 0"), quota_v2("")), (None, None));
        assert_eq!((quota_of("-1\n", "100000\n"), quota_of("400000", "100000")), (None, Some(4)));
        let [v2, v1] = groups("0::/user.slice/a.scope\n3:cpu,cpuacct:/docker/b\n2:memory:/c\n");
        assert_eq!(v2, ["/user.slice/a.scope", "/user.slice", ""].map(|path| format!("/sys/fs/cgroup{path}")));
        assert_eq!(v1, ["/docker/b", "/docker", ""].map(|path| format!("/sys/fs/cgroup/cpu{path}")));
        assert_eq!(groups("0::/\n")[0], ["/sys/fs/cgroup"]);
    }

    #[test]
    fn the_least_quota_of_a_container_and_of_what_it_is_in_counts() {
        let quota = |files: &[(&str, &str)]| {
            quota_by(&|path| files.iter().find(|file| file.0 == path).map(|file| file.1.to_string()))
        };
        let inside = ("/proc/self/cgroup", "0::/\n");
        assert_eq!(quota(&[inside, ("/sys/fs/cgroup/cpu.max", "200000 100000\n")]), Some(2));
        assert_eq!(quota(&[inside, ("/sys/fs/cgroup/cpu.max", "max 100000\n")]), None);
        let seen_from_outside = [
            ("/proc/self/cgroup", "0::/kubepods/pod/engine\n"),
            ("/sys/fs/cgroup/kubepods/pod/engine/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/kubepods/pod/cpu.max", "150000 100000\n"),
            ("/sys/fs/cgroup/kubepods/cpu.max", "6300000 100000\n"),
        ];
        assert_eq!(quota(&seen_from_outside), Some(2));
        let old = [
            ("/proc/self/cgroup", "4:cpu,cpuacct:/docker/b\n0::/\n"),
            ("/sys/fs/cgroup/cpu/docker/b/cpu.cfs_quota_us", "100000\n"),
            ("/sys/fs/cgroup/cpu/docker/b/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(quota(&old), Some(1));
        assert_eq!(quota(&[]), None);
    }

    #[test]
    fn processors_of_one_core_count_once() {
        assert_eq!(different(["0,4\n", "1,5\n", "0,4\n"].map(String::from).into_iter()), Some(2));
        assert_eq!(different(std::iter::empty()), None);
    }
}
