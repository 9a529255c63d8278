package owner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRescueIsACommandWhateverItNames(t *testing.T) {
	require.Equal(t, "mkdir v && docker run --rm --network none --user 0 -v v:/workspace:ro --entrypoint tar i:1 -C /workspace -cf - . | tar -xf - --no-same-owner -C v",
		Rescue("", "i:1", "v"))
	require.Contains(t, Rescue("tcp://h:1", "i", "v"), "docker -H tcp://h:1 run ")
	require.Contains(t, Rescue("", "i; rm -rf 'x'", "v"), `tar 'i; rm -rf '\''x'\''' -C`)
}
