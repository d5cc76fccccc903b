"""Labels of `com.atproto.label`: signed with this site's own key, and served as a stream and a query."""
