package owner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRescueIsACommandWhateverItNames(t *testing.T) {
	require.Equal(t, "mkdir v && id=$(docker create --network none -v v:/workspace:ro i:1 true) && docker cp $id:/workspace/. v && docker rm $id",
		Rescue("", "i:1", "v"))
	require.Contains(t, Rescue("tcp://h:1", "i", "v"), "docker -H tcp://h:1 cp ")
	require.Contains(t, Rescue("", "i; rm -rf 'x'", "v"), `ro 'i; rm -rf '\''x'\''' true)`)
}
