package docker

import "strings"

// readOnlyProc are the paths that the engine mounts read-only over those in
// /proc. The first line is what it does by itself. The others are the kernel's own,
// the same for every container and the machine: root of a container is their owner,
// and could change their modes for all. What a kernel does not have is left out.
// What the engine hides is not among them.
var readOnlyProc = underProc(`
	bus fs irq sys sysrq-trigger
	bootconfig buddyinfo cgroups cmdline config.gz consoles cpuinfo crypto devices
	diskstats dma driver dynamic_debug execdomains fb filesystems interrupts iomem
	ioports kallsyms key-users kmsg kpagecgroup kpagecount kpageflags loadavg lockdep
	lockdep_chains lockdep_stats lock_stat locks mdstat meminfo misc modules mtd mtrr
	pagetypeinfo partitions pressure schedstat slabinfo softirqs stat swaps sysvipc tty
	uptime version vmallocinfo vmcore vmstat xen zoneinfo`)

func underProc(names string) []string {
	var paths []string
	for _, name := range strings.Fields(names) {
		paths = append(paths, "/proc/"+name)
	}
	return paths
}
