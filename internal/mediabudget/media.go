package mediabudget

import (
	"encoding/base64"
	"net/http"
	"strings"
)

// MediaType is the media type that a content shows.
func MediaType(data []byte) string {
	switch kind := http.DetectContentType(data); {
	case kind == "audio/wave":
		return "audio/wav"
	case len(data) > 2 && data[0] == 0xff && data[1]&0xe6 == 0xe2: // an MP3 frame, where no tag comes before it
		return "audio/mpeg"
	default:
		return kind
	}
}

// IsRecording reports whether a URL has a recording that can be sent.
func IsRecording(url string) bool {
	head, data, _ := strings.Cut(url, ",")
	return strings.HasPrefix(head, "data:audio/") && strings.HasSuffix(head, ";base64") && data != ""
}

// ChatAudio returns a recording as chat completions want it: without the head of
// the data URL.
func ChatAudio(url string) (format, data string) {
	head, data, _ := strings.Cut(strings.TrimPrefix(url, "data:audio/"), ",")
	switch format, _, _ = strings.Cut(head, ";"); format {
	case "mpeg":
		format = "mp3"
	case "wave", "x-wav":
		format = "wav"
	}
	return format, data
}

// AudioURL is the inverse of ChatAudio.
func AudioURL(format, data string) string {
	if format == "mp3" {
		format = "mpeg"
	}
	return "data:audio/" + format + ";base64," + data
}

// DataURL returns data of a media type as a URL.
func DataURL(kind string, data []byte) string {
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data)
}
