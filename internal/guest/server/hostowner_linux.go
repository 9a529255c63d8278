package server

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/x/pygent/internal/guest/wire"
)

// ownerOnHost translates the owner that the host names to the ids of this user
// namespace. That works only if the workspace is the very directory that the
// host has looked at.
func ownerOnHost(root *os.Root, h wire.HostOwner) (*owner, bool) {
	return ownerMapped(root, h, "/proc/self")
}

// ownerMapped does the same with the id maps of the given process.
func ownerMapped(root *os.Root, h wire.HostOwner, process string) (*owner, bool) {
	if !h.Known || h.Boot == "" || h.Boot != bootID() {
		return nil, false
	}
	info, err := root.Stat(".")
	if err != nil {
		return nil, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Dev != uint64(h.Dev) || stat.Ino != uint64(h.Ino) {
		return nil, false
	}
	uid, plainUsers, ok := idHere(process+"/uid_map", h.UID)
	gid, plainGroups, known := idHere(process+"/gid_map", h.GID)
	if !ok || !known {
		return nil, false
	}
	o := &owner{UID: uid, GID: gid}
	// The maps translate from the parent namespace, which need not be the
	// host's.
	mapped := !plainUsers || !plainGroups
	if mapped && h.Sure && *o != (owner{UID: int(stat.Uid), GID: int(stat.Gid)}) {
		return nil, false
	}
	return o, true
}

// bootID identifies the current boot of the kernel.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// idHere translates an id of the parent namespace to this one. same means that
// all ids are equal in both.
func idHere(file string, above int64) (id int, same, ok bool) {
	f, err := os.Open(file)
	if err != nil {
		return 0, false, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var inside, outside, count int64
		if _, err := fmt.Sscan(lines.Text(), &inside, &outside, &count); err != nil {
			return 0, false, false
		}
		if above >= outside && above < outside+count {
			return int(inside + above - outside), inside == 0 && outside == 0 && count == 1<<32-1, true
		}
	}
	return 0, false, false
}
