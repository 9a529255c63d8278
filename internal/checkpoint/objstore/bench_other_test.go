//go:build !unix

package objstore_test

import "time"

func cpuTime() time.Duration { return 0 }

func childTime() time.Duration { return 0 }
