package mediabudget

import "strings"

// What messages begin with that show a model the images and files of results.
const (
	imagesOfResults = "The images that the tools gave:"
	filesOfResults  = "The files that the tools gave:"
	imagesOfResult  = "Images in the result of "
	filesOfResult   = "Files in the result of "
)

// OfResults is what a message begins with that shows the images of results, or with files
// their files.
func OfResults(files bool) string {
	if files {
		return filesOfResults
	}
	return imagesOfResults
}

// OfResult is the same for the result of the call of a tool.
func OfResult(files bool, tool, id string) string {
	of := imagesOfResult
	if files {
		of = filesOfResult
	}
	return of + tool + " (" + id + "):"
}

// IsHeading reports whether a text is one of those beginnings.
func IsHeading(text string) bool {
	return text == imagesOfResults || text == filesOfResults || strings.HasPrefix(text, imagesOfResult) || strings.HasPrefix(text, filesOfResult)
}
